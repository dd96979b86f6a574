"""The parser of every subcommand: the standard library's, because a richer one costs more than opening a desk does."""

from __future__ import annotations

import argparse
from types import ModuleType
from typing import NoReturn

from hotdesk.errors import BriefError


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


def dedent(text: str) -> str:
    """Lay a docstring out for a terminal."""
    return "\n".join(line.removeprefix("    ") for line in text.rstrip().splitlines())
