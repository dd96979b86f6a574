"""Parses the usual command lines of `run`, `exec`, `ps` and `ssh --stdio`; returns `None` for any other."""

from __future__ import annotations

SIZES = frozenset({"--image", "--cpus", "--memory", "--disk", "--disk-in", "--pids", "--env", "--wall", "--timeout"})
"""Options of `run` that take a value. The holder parses them with the command's own parser."""
FLAGS = frozenset({"--root"})
ALONE = "--no-holder"
EXEC = frozenset({"--cwd", "--user", "--timeout", "--env"})
MAX_SECONDS = 365 * 86400
DESK_SUFFIX = ".desk"
"""Suffix of a desk's id as an SSH host name."""


class QuickRun:
    def __init__(self, own: list[str], command: list[str], timeout: float | None, *, is_alone: bool = False) -> None:
        self.own = own
        """Its options with their values, without `--no-holder`."""
        self.is_alone = is_alone
        self.command = command
        self.timeout = timeout


class QuickExec:
    def __init__(self, desk: str, command: list[str], timeout: float | None) -> None:
        self.desk = desk
        self.command = command
        self.timeout = timeout
        self.cwd: str | None = None
        self.user = "user"
        self.env: dict[str, str] = {}


def parse_run(argv: list[str]) -> QuickRun | None:
    found = _split(argv, SIZES, FLAGS | {ALONE}, 0)
    if found is None:
        return None
    options, _, command = found
    timeout = _read_timeout(options)
    if not command or timeout == 0:
        return None
    own = [name if value is None else f"{name}={value}" for name, value in options if name != ALONE]
    return QuickRun(own, command, timeout, is_alone=(ALONE, None) in options)


def parse_exec(argv: list[str]) -> QuickExec | None:
    found = _split(argv, EXEC, frozenset(), 1)
    if found is None:
        return None
    options, desks, command = found
    timeout = _read_timeout(options)
    if not command or len(desks) != 1 or timeout == 0:
        return None
    order = QuickExec(desks[0], command, timeout)
    for name, value in options:
        key, equals, text = (value or "").partition("=")
        if name == "--cwd":
            order.cwd = value
        elif name == "--user":
            order.user = value or ""
            if order.user not in ("user", "root"):
                return None
        elif name == "--env" and key and equals:
            order.env[key] = text
        elif name == "--env":
            return None
    return order


def parse_ps(argv: list[str]) -> tuple[str | None, bool] | None:
    found = _split(argv, frozenset({"--tenant"}), frozenset({"--json"}), 1)
    if found is None or found[1] or found[2]:
        return None
    options = dict(found[0])
    return options.get("--tenant"), "--json" in options


def parse_ssh(argv: list[str]) -> str | None:
    found = _split(argv, frozenset(), frozenset({"--stdio"}), 1)
    if found is None or found[0] != [("--stdio", None)] or len(found[1]) != 1 or found[2]:
        return None
    return found[1][0].partition(".")[0]


def _split(
    argv: list[str], with_value: frozenset[str], flags: frozenset[str], before: int
) -> tuple[list[tuple[str, str | None]], list[str], list[str]] | None:
    """Split options, leading words and command; return `None` if only the real parser can parse the line."""
    options: list[tuple[str, str | None]] = []
    words: list[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return options, words, argv[at + 1 :]
        if not word.startswith("-") or word == "-":
            if len(words) == before:
                return options, words, argv[at:]
            words.append(word)
        else:
            name, equals, value = word.partition("=")
            if name in flags and not equals:
                options.append((name, None))
            elif name not in with_value:
                return None
            elif equals:
                options.append((name, value))
            elif at + 1 == len(argv) or argv[at + 1].startswith("-"):
                return None
            else:
                at += 1
                options.append((name, argv[at]))
        at += 1
    return options, words, []


def _read_timeout(options: list[tuple[str, str | None]]) -> float | None:
    """Read the time limit of a command: `None` if there is none, 0 if it is invalid."""
    seconds: float | None = None
    for name, value in options:
        if name == "--timeout":
            try:
                seconds = float(value or "")
            except ValueError:
                return 0
            if not 0 < seconds <= MAX_SECONDS:
                return 0
    return seconds
