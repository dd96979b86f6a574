"""A step's own check: how it runs, what its failure means, and whether it can run at all.

A check decides whether a step counts as done, so the worker must not supply the code it runs on: Python in a check
imports nothing from the home folder, unless the check itself says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from hotdesk.desk.seam import Desk, Done
from hotdesk.hands.output import make_readable

CHECK_TIMEOUT_S = 300.0
_PROBE_TIMEOUT_S = 20.0
_MAX_OUTPUT_CHARS = 2000
"""Maximum characters of a failed check's output that the worker gets."""
_MAX_LINES = 40
_MAX_NAMES = 20
"""Maximum modules of one check that the probe looks for."""
ENVIRONMENT = {"PYTHONSAFEPATH": "1", "PYTHONPATH": "", "PYTHONHOME": "", "PYTHONSTARTUP": "", "BASH_ENV": ""}
NO_USER_SITE = {"PYTHONNOUSERSITE": "1"}
REMEDY = "Ask for another check with amend_plan(check=…) that uses only programs and modules of this desk."
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_IMPORT_ERROR = re.compile(r"^(?:ModuleNotFoundError|ImportError): [^\n]{1,300}", re.MULTILINE)
_SYNTAX_ERROR = re.compile(r"^(?:SyntaxError|IndentationError|TabError): [^\n]{1,300}", re.MULTILINE)
_IN_COMMAND = re.compile(r'File "<(?:string|stdin)>", line ')
"""Marks an error that Python found in the command itself, not in a file that the worker wrote."""
_SHELL_ERROR = re.compile(r"^bash: [^\n]{0,200}(?:syntax error|unexpected EOF)[^\n]{0,200}", re.MULTILINE)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+\[:-]{1,100}")
_PYTHON = re.compile(r"(?:^|[\s;&|(])(?:/usr/bin/)?python3?(?:\.\d+)?\s")
_IMPORTS = re.compile(r"(?:^|[\s;\"'])(?:from\s+([A-Za-z_]\w*)[\w.]*\s+import\b|import\s+([A-Za-z_][\w., \t]*))")
_PROBE = """
bash -n -c "$1" || exit 3
[ -z "$2" ] || type -t -- "$2" >/dev/null || exit 4
shift 2
[ $# = 0 ] || exec python3 -c '
import sys
from importlib.util import find_spec
print(*[name for name in sys.argv[1:] if find_spec(name) is None])' "$@"
"""


def _describe_environment(user_site: bool) -> dict[str, str]:
    """Return the environment of a check; with `user_site` it may use packages that the step installed."""
    return ENVIRONMENT if user_site else {**ENVIRONMENT, **NO_USER_SITE}


async def run_check(desk: Desk, check: str, *, user_site: bool = False) -> str:
    """Run a check in the home folder; return a description of its failure, or `""` if it passed."""
    done = await desk.run(["bash", "-c", check], env=_describe_environment(user_site), timeout=CHECK_TIMEOUT_S)
    return "" if done.ok else describe_failure(check, done)


def describe_failure(check: str, done: Done) -> str:
    """Explain why a check failed or cannot run. Its output is the desk's words."""
    errors, output = (_tidy(each) for each in (done.stderr, done.stdout))
    text = "\n".join(filter(None, (output, errors)))[-_MAX_OUTPUT_CHARS:]
    shown = f"\n{text}" if text else " It printed nothing."
    if done.timed_out:
        return f"the step's check `{check}` took more than {CHECK_TIMEOUT_S:g} seconds and was ended.{shown}"
    if why := _find_obstacle(done.exit_code, errors):
        return f"{_explain_obstacle(why)}\nThe check is `{check}`. Its output:{shown}"
    return f"the step's check `{check}` ended with exit code {done.exit_code}:{shown}"


def _find_obstacle(exit_code: int, errors: str) -> str:
    """Explain why a check cannot run at all; return `""` if it ran and failed."""
    last = errors.strip().rpartition("\n")[2][:300]
    if exit_code == _NOT_FOUND:
        return last or "a program that the check runs does not exist"
    if exit_code == _NOT_EXECUTABLE:
        return last or "a program that the check runs cannot be executed"
    if found := _IMPORT_ERROR.search(errors):
        return found[0]
    if (found := _SYNTAX_ERROR.search(errors)) and _IN_COMMAND.search(errors):
        return found[0]
    found = _SHELL_ERROR.search(errors)
    return found[0] if found else ""


def _explain_obstacle(why: str) -> str:
    hint = " In a check, Python cannot import modules from the home folder." if "module" in why.lower() else ""
    return f"The step's check cannot run here: {why.rstrip('.')}.{hint} {REMEDY}"


def _tidy(data: bytes) -> str:
    text = data[-4 * _MAX_OUTPUT_CHARS :].decode("utf-8", "replace")
    return "\n".join(make_readable(text).strip().split("\n")[-_MAX_LINES:])[-_MAX_OUTPUT_CHARS:]


async def probe_check(desk: Desk, check: str, *, user_site: bool = False) -> str:
    """Explain, before work begins, why a check cannot run at this desk; return `""` if no obstacle was found."""
    word, modules = find_program(check), find_modules(check)
    done = await desk.run(
        ["bash", "-c", _PROBE, "probe", check, word, *modules],
        env=_describe_environment(user_site),
        timeout=_PROBE_TIMEOUT_S,
    )
    match done.exit_code:
        case 3:
            return _explain_obstacle(
                _tidy(done.stderr).rpartition("\n")[2][:300] or "the check is not a valid shell command"
            )
        case 4:
            return _explain_obstacle(f"the program `{word}` does not exist")
        case 0:
            missing = [name for name in _tidy(done.stdout).split() if name in modules]
            return _explain_obstacle(f"Python has no module named {', '.join(missing)}") if missing else ""
    return ""


def find_program(check: str) -> str:
    """Return the program that a command starts, if the desk must have it; `""` if that is uncertain."""
    try:
        words = [word for word in shlex.split(check) if word not in ("!", "time")]
    except ValueError:
        return ""
    word = next((each for each in words if not _ASSIGNMENT.match(each)), "")
    below = "/" in word and not word.startswith("/")
    return word if _PLAIN_WORD.fullmatch(word) and not below else ""


def find_modules(check: str) -> Sequence[str]:
    """List the Python modules that a command imports from installed packages; none if it sets its own search path."""
    if not _PYTHON.search(check) or "PYTHONPATH" in check or "sys.path" in check:
        return ()
    names: list[str] = []
    for origin, listed in _IMPORTS.findall(check[:20_000]):
        names += (
            [origin] if origin else [each.split()[0].partition(".")[0] for each in listed.split(",") if each.split()]
        )
    return tuple(dict.fromkeys(name for name in names if name.isidentifier()))[:_MAX_NAMES]
