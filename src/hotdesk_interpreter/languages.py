"""The languages: how their kernels are started, and how code is sent to them."""

from __future__ import annotations

import base64
import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hotdesk_interpreter.web import HttpError

HERE = Path(__file__).resolve().parent
NAMES = {"js": "javascript", "ts": "typescript", "py": "python", "sh": "bash", "shell": "bash"}
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Language:
    name: str
    argv: tuple[str, ...]
    order: Callable[[str, Mapping[str, str]], bytes]
    """Encodes code and the variables of this call for the kernel, which gets them after a number."""
    interruption: bytes = b""
    """Input that interrupts the code whose number comes before it, in addition to the signal."""


def as_line(code: str, env: Mapping[str, str]) -> bytes:
    return json.dumps({"code": code, "env": dict(env)}).encode() + b"\n"


def _as_words(code: str, env: Mapping[str, str]) -> bytes:
    """Encode code and variables as a line of base64 words: the code, then each variable and its value."""
    words = [code, *(word for pair in env.items() for word in pair)]
    return b" ".join(base64.b64encode(word.encode("utf-8", "replace")) for word in words) + b"\n"


def as_script(code: str, env: Mapping[str, str]) -> bytes:
    """Encode code and variables as a bash script that restores the variables afterwards."""
    if "\0" in code or any("\0" in value for value in env.values()):
        raise HttpError(400, "a bash script and its variables must not contain the character NUL")
    before = [f"__was_{key}=$(declare -p {key} 2>/dev/null); export {key}={shlex.quote(env[key])}" for key in env]
    after = [f'unset {key}; eval "${{__was_{key}/declare /declare -g }}"; unset __was_{key}' for key in env]
    return "\0".join(("\n".join(before), code, "\n".join(after), "")).encode("utf-8", "replace")


PYTHON = Language("python", (sys.executable, "-P", str(HERE / "python.py")), as_line)
NODE = ("node", "--no-warnings")
JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-cp", str(HERE), "Kernel")
STOP = b'{"interrupt":true}\n'
LANGUAGES = {
    "python": PYTHON,
    "javascript": Language("javascript", (*NODE, str(HERE / "node.js")), as_line, STOP),
    "bash": Language("bash", ("bash", "--noprofile", "--norc", str(HERE / "loop.sh")), as_script),
    "typescript": Language("typescript", (*NODE, str(HERE / "typescript.js")), as_line, STOP),
    "r": Language("r", ("Rscript", "--vanilla", str(HERE / "kernel.R")), as_line),
    "java": Language("java", JAVA, _as_words),
}
NEEDED = {
    "typescript": Path("/usr/share/nodejs/typescript"),
    "r": Path("/usr/bin/Rscript"),
    "java": HERE / "Kernel.class",
}
"""Files that the kernels of some languages need, which not every image has."""


def _list_offered() -> list[str]:
    return [name for name in LANGUAGES if name not in NEEDED or NEEDED[name].exists()]


def get_language(name: object) -> Language:
    if not isinstance(name, str):
        raise HttpError(400, "language must be a text")
    offered = _list_offered()
    canonical = NAMES.get(name.lower(), name.lower())
    if canonical not in offered:
        more = "; TypeScript, R and Java are in the template code-interpreter-full" if canonical in NEEDED else ""
        raise HttpError(400, f"language {name[:40]!r} is not supported; the languages are {', '.join(offered)}{more}")
    return LANGUAGES[canonical]


def check_variables(data: object) -> dict[str, str]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise HttpError(400, "env_vars must be an object of names and texts")
    for key, value in data.items():
        if not VARIABLE.fullmatch(key) or not isinstance(value, str) or "\0" in value:
            raise HttpError(
                400,
                f"{key[:40]!r} is not a valid name of an environment variable, or its value is not a text without NUL",
            )
    return dict(data)
