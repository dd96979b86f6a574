"""The process that serves one task's web site; it prints its address first, and the site's state at the end.

Its arguments are the task's folder, the folder of hidden files and a folder for certificates. It serves until its
standard input is closed. The site is the task author's code and runs with the rights of the user who runs the
evaluation.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType
from typing import Any

from hotdesk.errors import BriefError
from hotdesk.evaluation.task import SITE
from hotdesk.evaluation.website import certify_hosts, serve_website

_TRUTH = "truth.json"


def main() -> None:
    """Serve until standard input is closed."""
    folder, hidden_folder, certificates = (Path(argument) for argument in sys.argv[1:4])
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the site must not mix with this process's replies
    site = _load_site(folder)
    hidden = json.loads((hidden_folder / _TRUTH).read_text())
    handler: type[BaseHTTPRequestHandler] = site.talk(hidden)
    list_secrets: Callable[[dict[str, Any]], dict[str, str]] = getattr(site, "secrets", lambda hidden: {})
    ca, chain = certify_hosts(certificates, *site.HOSTS)
    with serve_website(handler, chain) as port:
        address = {"port": port, "ca": str(ca), "hosts": list(site.HOSTS), "secrets": list_secrets(hidden)}
        print(json.dumps(address), file=output, flush=True)
        sys.stdin.buffer.read()
    print(json.dumps(read_state(site, handler)), file=output, flush=True)


def _load_site(folder: Path) -> ModuleType:
    """Import a task's site.py, which may import modules beside it and beside the folder of all tasks."""
    sys.path += [str(folder), str(folder.parents[2])]
    spec = importlib.util.spec_from_file_location("task_site", folder / SITE)
    if spec is None or spec.loader is None:
        raise BriefError(f"{folder / SITE} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules["task_site"] = module
    spec.loader.exec_module(module)
    return module


def read_state(site: ModuleType, handler: type[BaseHTTPRequestHandler]) -> object:
    """Return the `state` of the site or its request handler, called if it is a function; empty if there is none."""
    state = getattr(site, "state", None) or getattr(handler, "state", {})
    return state() if callable(state) else state
