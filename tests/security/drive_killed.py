"""Processes that write to a drive, each killed one call later than the previous one; run by an attack.

Every call into C that the drive makes is a point of death, before it and after it: each file that is opened, written,
synced or renamed, and each SQLite statement. What was completed until then is printed as a line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from hotdesk.drive.keep import Drive

ANNA = "uid:1000"
OURS = ("/hotdesk/drive/", "/hotdesk/vault/private")
CALLS = frozenset(
    {"open", "write", "flush", "fsync", "rename", "unlink", "execute", "close", "fchmod", "flock", "mkdir"}
)
STEPS = 1000


def dying(after: int) -> Callable[[FrameType, str, Any], None]:
    left = after

    def count(frame: FrameType, event: str, what: Any) -> None:
        nonlocal left
        if event not in ("c_call", "c_return") or not any(part in frame.f_code.co_filename for part in OURS):
            return
        if what.__name__ in CALLS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return count


def live(folder: Path, tell: Callable[[list[object]], None]) -> None:
    """Store and remove files; report each operation once it is complete."""
    drive = Drive(folder)
    for data in (b"one", b"two"):
        tell(["kept", drive.keep("a", data, owner=ANNA).number, data.decode()])
    tell(["removing", 2, ""])
    drive.remove("a", 2, who=ANNA)
    tell(["removed", 2, ""])
    tell(["kept", drive.keep("a", b"three", owner=ANNA).number, "three"])


def one_life(folder: Path, after: int) -> dict[str, object]:
    """Run in a separate process until killed; return what was completed."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            sys.setprofile(dying(after))
            live(folder, lambda what: (os.write(writes, json.dumps(what).encode() + b"\n"), None)[1])
            sys.setprofile(None)
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads, "rb") as file:
        done = [json.loads(line) for line in file.read().splitlines()]
    status = os.waitpid(child, 0)[1]
    return {"killed": os.WIFSIGNALED(status), "done": done}


def main() -> None:
    """Repeat until one process ends by itself."""
    for after in range(0, STEPS, int(sys.argv[2])):
        life = one_life(Path(sys.argv[1]) / str(after), after)
        print(json.dumps({"after": after, **life}))
        if not life["killed"]:
            return


if __name__ == "__main__":
    main()
