"""`hotdesk resume`: let paused desks go on."""

from __future__ import annotations

import argparse

from hotdesk.cli.pause import add, each

__all__ = ["add", "main"]


def main(arguments: argparse.Namespace) -> int:
    """Let paused desks go on. One that is not paused is no error.

    For example:

      hotdesk resume $ID
    """
    return each(arguments.desks, paused=False)
