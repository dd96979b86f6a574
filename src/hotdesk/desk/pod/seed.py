"""The message that a guest in a pod gets from its agent: its code, its variables and its files."""

from __future__ import annotations

import base64
import json
import marshal
from collections.abc import Mapping
from functools import cache
from importlib.util import MAGIC_NUMBER

from hotdesk.desk.image.guest_code import GUEST
from hotdesk_guest.ports import GATE

_MODULES = (
    "wire", "process", "line", "programs", "files", "watch", "acts", "agent", "ports", "parking", "mux", "tls", "pod",
)  # fmt: skip
"""The guest's modules, in order of dependency."""


def build_seed(
    python: bytes,
    env: Mapping[str, str],
    files: Mapping[str, str] | None = None,
    *,
    is_sentry: bool = False,
    gate: tuple[str, int] = GATE,
) -> bytes:
    """Return the message for a guest whose Python has this magic number."""
    modules = _read_modules(is_alike=python == MAGIC_NUMBER)
    seed = {"modules": modules, "env": dict(env), "files": dict(files or {}), "sentry": is_sentry, "gate": gate}
    return json.dumps(seed).encode()


@cache
def _read_modules(*, is_alike: bool) -> list[tuple[str, str, str]]:
    """Return the name, source and bytecode of each module; bytecode only for the Python that compiled it."""
    found = []
    for name in _MODULES:
        source = (GUEST / f"{name}.py").read_text()
        code = compile(source, f"hotdesk_guest/{name}.py", "exec", dont_inherit=True, optimize=2) if is_alike else None
        text = base64.b64encode(marshal.dumps(code)).decode() if code is not None else ""
        found.append((name, "" if text else source, text))
    return found
