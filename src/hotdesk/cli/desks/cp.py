"""`hotdesk cp`: copy files to and from an open desk."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hotdesk import config
from hotdesk.cli.ids import begin_with, find_desk
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.desk.owner.transfer import get, put
from hotdesk.desk.seam import ID_SHAPE, DeskId
from hotdesk.errors import BriefError
from hotdesk.host import borrow
from hotdesk.linux.landlock import confine


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a local path, or ID:PATH for a path in the desk with that id")
    parser.add_argument("target", help="a local path, or ID:PATH for a path in the desk with that id")


def main(arguments: argparse.Namespace) -> int:
    """Copy a file or folder to or from an open desk. Symbolic links of a desk are left out.

    For example:

      hotdesk cp data.csv $ID:data.csv
      hotdesk cp $ID:out ./out
    """
    settings = config.load()
    (from_desk, from_path), (to_desk, to_path) = split(settings, arguments.source), split(settings, arguments.target)
    chosen = from_desk or to_desk
    if chosen is None or (from_desk is not None and to_desk is not None):
        raise BriefError("one of the two paths must be ID:PATH with the id of an open desk, the other a local path")

    async def work() -> int:
        confine([] if from_desk is None else [Path(to_path)], any_owner=True)
        async with borrow(settings, chosen) as desk:
            if from_desk is None:
                await put(desk, Path(from_path), to_path)
            else:
                await get(desk, from_path, Path(to_path), lambda text: print(f"hotdesk: {text}", file=sys.stderr))
        return 0

    return run_interruptible(work)


def split(settings: Config, text: str) -> tuple[DeskId | None, str]:
    """Split `ID:PATH`. Without an id or the start of an open desk's id, it is a local path: `None` and the text."""
    name, colon, path = text.partition(":")
    if not colon or not (ID_SHAPE.fullmatch(name) or begin_with(settings, name)):
        return None, text
    return find_desk(settings, name), path or "."
