"""An extra wall for tests of routing: containers under another name that claim a kernel of their own.

`install` registers it in this process; `start_keeper` starts a keeper that has it, with the standard library alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hotdesk.config import Config
from hotdesk.desk.keeper import program
from hotdesk.desk.keeper.spawn import Started, encode_settings, pair
from hotdesk.desk.wall.container import status
from hotdesk.desk.wall.container.wall import ContainerWall
from hotdesk.desk.wall.registry import KINDS, WallKind, register
from hotdesk.walls import TRAITS, WallStatus

NAME = "microvm"
PLATFORM = "pretended"
START = (
    "import sys;sys.path[:0]=[sys.argv[2],sys.argv[3]];from tests import strong_wall;strong_wall.register_here();"
    "from hotdesk.desk.keeper import keeper;keeper.main()"
)
ROOT = str(Path(__file__).parents[1])


class StrongWall(ContainerWall):
    """Containers under another name."""

    name = NAME
    traits = replace(TRAITS["container"], kernel="own")


def look(settings: Config) -> WallStatus:
    return replace(status.look(settings), name=NAME, traits=StrongWall.traits, platform=PLATFORM)


def register_here() -> None:
    register(WallKind(NAME, StrongWall, look))


@contextmanager
def install() -> Iterator[None]:
    before = dict(KINDS)
    register_here()
    try:
        yield
    finally:
        KINDS.clear()
        KINDS.update(before)


def start_keeper(settings: Config) -> Started:
    ours, theirs = pair()
    with theirs, open(os.devnull, "r+b") as null:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-B", "-c", START, encode_settings(settings), program.SOURCE, ROOT],
            {"PATH": os.defpath},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 3),
                *((os.POSIX_SPAWN_DUP2, null.fileno(), place) for place in (0, 1, 2)),
            ],
            setsid=True,
            setsigmask=(),
        )
    return Started(ours, pid)
