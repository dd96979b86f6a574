"""The parser of every subcommand: the standard library's, because a richer one costs more than opening a desk does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NoReturn, TypeAlias

from hotdesk.errors import BriefError

Act: TypeAlias = Callable[[argparse.Namespace], int | None]
Describe: TypeAlias = Callable[[argparse.ArgumentParser], object]


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with a call."""
        raise BriefError(f"{message}; see `{self.prog} --help`")


def parse(name: str, module: ModuleType, own: list[str], command: list[str] | None) -> argparse.Namespace:
    """Read a subcommand's arguments; `command` is what came after `--`."""
    parser = Parser(
        prog=f"hotdesk {name}",
        description=dedent(module.main.__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    module.add(parser)
    arguments = parser.parse_intermixed_args(own) if getattr(module, "INTERMIXED", False) else parser.parse_args(own)
    if command is not None:
        arguments.command = command
    return arguments


def add_acts(
    parser: argparse.ArgumentParser, acts: Mapping[str, Act], arguments: Mapping[str, Describe]
) -> list[argparse.ArgumentParser]:
    """Describe what a subcommand can do, an act a name; each act's docstring is its help."""
    made = []
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
        made.append(each)
    return made


def dedent(text: str) -> str:
    """Lay a docstring out for a terminal."""
    return "\n".join(line.removeprefix("    ") for line in text.rstrip().splitlines())
