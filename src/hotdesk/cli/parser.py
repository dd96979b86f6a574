"""The parser of every subcommand: `argparse`, because a richer one takes longer than opening a desk."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NoReturn, TypeAlias

from hotdesk.errors import BriefError

Act: TypeAlias = Callable[[argparse.Namespace], int | None]
Describe: TypeAlias = Callable[[argparse.ArgumentParser], object]
COMMAND = "command"
"""The argument with a program and its own arguments, as in `run`, `exec` and `shell`."""
MAX_SECONDS = 365 * 86400


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all other errors."""

    def error(self, message: str) -> NoReturn:
        raise BriefError(f"{message}; see `{self.prog} --help`")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            from hotdesk.cli.suggest import format_suggestion  # its difflib takes 8 ms

            meant = format_suggestion(str(value), action.choices)
            choices = f"{' Use' if meant else '; use'} one of {', '.join(action.choices)}"
            self.error(f"`{self.prog}` has no command {value!r}{meant}{choices}")
        super()._check_value(action, value)


def make_parser(name: str, module: ModuleType) -> Parser:
    parser = Parser(
        prog=f"hotdesk {name}",
        description=dedent(module.main.__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    module.add(parser)
    return parser


def parse(name: str, module: ModuleType, argv: list[str]) -> argparse.Namespace:
    parser = make_parser(name, module)
    own, command = _split_command(parser, argv)
    parse_own = parser.parse_intermixed_args if getattr(module, "INTERMIXED", False) else parser.parse_args
    arguments = parse_own(own)
    if command is not None:
        arguments.command = command
    return arguments


def _split_command(parser: argparse.ArgumentParser, argv: list[str]) -> tuple[list[str], list[str] | None]:
    """Split hotdesk's own arguments from a program and its arguments.

    The program starts after `--`, or at the first word that is not an option of hotdesk, its value, or one of the
    arguments before the program (the id of `exec`). All words from there on belong to the program, options included.
    """
    actions = parser._actions
    if not any(action.dest == COMMAND and not action.option_strings for action in actions):
        return _split_at_dashes(argv)
    before = sum(1 for action in actions if not action.option_strings and action.dest != COMMAND)
    takes_value = {name: action.nargs != 0 for action in actions for name in action.option_strings}
    words = iter(enumerate(argv))
    for at, word in words:
        if word == "--":
            return argv[:at], argv[at + 1 :]
        if word.startswith("-") and word != "-":
            if takes_value.get(word):
                next(words, None)
        elif before:
            before -= 1
        else:
            return argv[:at], argv[at:]
    return argv, None


def _split_at_dashes(argv: list[str]) -> tuple[list[str], list[str] | None]:
    """Split hotdesk's own arguments from those after `--`."""
    if "--" not in argv:
        return argv, None
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def parse_timeout(text: str) -> float:
    """Parse a time in seconds, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(
            f"must be a number of seconds above 0, at most {MAX_SECONDS}, not {text[:40]!r}"
        )
    return value


def add_acts(
    parser: argparse.ArgumentParser, acts: Mapping[str, Act], arguments: Mapping[str, Describe]
) -> list[argparse.ArgumentParser]:
    """Add a subparser for each act of a subcommand; the act's docstring is its help."""
    parsers = []
    places = parser.add_subparsers(dest="act", required=True, metavar="|".join(acts))
    for name, act in acts.items():
        text = act.__doc__ or ""
        each = places.add_parser(
            name,
            help=text.splitlines()[0],
            description=dedent(text),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        each.set_defaults(main=act)
        arguments[name](each)
        parsers.append(each)
    return parsers


def dedent(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.rstrip().splitlines())
