"""Processes that store what a job leaves in its memory, each killed one call later than the last; run by an attack.

After each, the same is stored again, as a resumed job does. What the drive has then is printed as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from hotdesk.drive.identity import get_current_user
from hotdesk.drive.keep import Drive
from hotdesk.drive.memory import MemoryStore
from tests.security.drive_killed import STEPS, dying

ITEMS = {"a.py": b"print(1)\n", "b.py": b"print(2)\n"}


def remember(folder: Path) -> None:
    store = MemoryStore(Drive(folder), get_current_user())
    for name, data in ITEMS.items():
        store.keep("orders", "file", name, data, job="i2", brief="")
    store.prune("orders", int(time.time() * 1000), lambda item: None)


def one_life(folder: Path, after: int) -> bool:
    """Store in a separate process until killed; return whether it was."""
    child = os.fork()
    if child == 0:
        try:
            sys.setprofile(dying(after))
            remember(folder)
            sys.setprofile(None)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main() -> None:
    """Repeat until one process ends by itself."""
    for after in range(0, STEPS, int(sys.argv[2])):
        folder = Path(sys.argv[1]) / str(after)
        before = MemoryStore(Drive(folder), get_current_user())
        before.keep("orders", "file", "a.py", b"old", job="i1", brief="")
        killed = one_life(folder, after)
        half = {item.name: before.read(item).decode() for item in before.list_items()}
        remember(folder)
        found = {item.name: [before.read(item).decode(), item.version.job] for item in before.list_items()}
        versions = [
            len(before.drive.list_history(item.version.name, who=get_current_user())) for item in before.list_items()
        ]
        numbers = {item.name: item.version.number for item in before.list_items()}
        print(json.dumps({"killed": killed, "half": half, "found": found, "versions": versions, "numbers": numbers}))
        if not killed:
            return


if __name__ == "__main__":
    main()
