"""`hotdesk resume`: let paused desks go on."""

from __future__ import annotations

import argparse

from hotdesk.cli.pause import add_desks, each


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    add_desks(parser)


def main(arguments: argparse.Namespace) -> int:
    """Let paused desks go on; one paused without its memory starts anew. One that is not paused is no error.

    For example:

      hotdesk resume $ID
    """
    return each(arguments.desks, lambda desk: desk.pause(False))
