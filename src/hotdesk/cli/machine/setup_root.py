"""Runs `hotdesk setup` again as root, with the variables of its caller that set-up needs and that start no programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hotdesk.cli.machine.image import say
from hotdesk.desk.image.build import is_passed_on
from hotdesk.errors import HostError
from hotdesk.linux.processes import read_status

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The search path of `sudo`."""
VARIABLES = "--variables-from"
"""The option with the file of the caller's variables, for set-up as root."""
_ROOTS_OWN = ("PATH", "HOME", "XDG_CONFIG_HOME", "PYTHONPATH", "HOTDESK_GVISOR_PROGRAM")
"""Variables by which a caller would choose programs and modules that root runs: root's are those that sudo let through.

Python imports packages from the home folder, and pip's settings, there or in a folder for settings, name a program.
"""
_PIP = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_TRUSTED_HOST")
_PIP_CONNECTION = ("PIP_PROXY", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_TIMEOUT", "PIP_RETRIES")
"""The options of pip that root takes. Others name a program to run (`PIP_PYTHON`) or files to write (`PIP_LOG`)."""
_DESCRIPTOR = re.compile(r"/proc/([1-9][0-9]{0,9})/fd/[0-9]{1,9}")


def widen_path() -> None:
    """Add the system's folders to the search path, which lacks those of useradd and ldconfig for an ordinary user.

    For root they come first: with `su`, root has the path of its caller.
    """
    own = os.environ.get("PATH", "")
    first, last = (SYSTEM_PATH, own) if os.geteuid() == 0 else (own, SYSTEM_PATH)
    os.environ["PATH"] = f"{first}:{last}".strip(":")


def become_root(lacking: Sequence[str]) -> None:
    """Run this command again with sudo; without sudo, explain what an administrator must do."""
    if shutil.which("sudo") is None:
        reasons = "; ".join(lacking) or "unknown, because only root can list images"
        raise HostError(
            f"setup needs root, and sudo is not installed; run `hotdesk setup` as root; missing here: {reasons}"
        )
    say("setup needs root: running it again with sudo")
    sys.stdout.flush()
    variables = os.memfd_create("variables")
    os.write(variables, json.dumps({name: os.environ[name] for name in os.environ if _is_needed(name)}).encode())
    # -B: no files owned by root in a user's checkout
    command = [sys.executable, "-B", *sys.argv, VARIABLES, f"/proc/{os.getpid()}/fd/{variables}"]
    early = ["--preserve-env=PYTHONPATH"] if "PYTHONPATH" in os.environ else []  # Python itself needs it
    raise SystemExit(_wait_for(["sudo", *early, "--", *command]))


def _wait_for(command: Sequence[str]) -> int:
    """Run a command and return its exit status, 128 + n after signal n.

    A Ctrl-C is for the command alone: this process may not end root's, and reports how it ended.
    """
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # which the command inherits
        signal.signal(signal.SIGINT, lambda *_: None)
    code = subprocess.call(command)
    return code if code >= 0 else 128 - code


def _is_needed(name: str) -> bool:
    """Return whether set-up needs a variable; it needs no API keys."""
    if name in _ROOTS_OWN:
        return False
    if name.upper().startswith("PIP_"):
        return name in (*_PIP, *_PIP_CONNECTION)
    return is_passed_on(name) or (name.startswith("HOTDESK_") and not name.endswith("_KEY"))


def take_variables(file: Path) -> None:
    """Set the variables of the process that called sudo. As options of sudo their values would be in its log."""
    found = _DESCRIPTOR.fullmatch(str(file))
    if found is None or not _is_ancestor(int(found[1])):
        raise HostError(f"{VARIABLES} {file} is not a descriptor of a calling process; run `sudo hotdesk setup`")
    try:
        variables = json.loads(file.read_bytes())
        os.environ.update({name: str(value) for name, value in variables.items() if _is_needed(name)})
    except (OSError, ValueError, AttributeError) as e:
        raise HostError(f"the variables in {file} cannot be read: {e}; run `sudo hotdesk setup`") from e


def _is_ancestor(pid: int) -> bool:
    above = os.getppid()
    while above not in (0, pid):
        above = int(read_status(above).get("PPid", "0"))
    return above == pid
