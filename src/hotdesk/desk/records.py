"""Files of a state directory that describe its desks: read by `ps` and `burn`, written by keepers.

Imports little, so that `hotdesk ps` is fast.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time

ID_SHAPE = re.compile(r"i[a-z0-9]{20}")


def read_facts(folder: os.PathLike[str] | str) -> dict[str, object] | None:
    """Read a desk's record; return `None` while it is being made or removed."""
    try:
        with open(os.path.join(folder, "desk.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def list_desks(run: os.PathLike[str] | str) -> list[dict[str, object]]:
    """List the desks of a state directory, oldest first, each with `kept`: whether it has a live keeper."""
    folder = os.path.join(run, "desks")
    try:
        names = [name for name in os.listdir(folder) if ID_SHAPE.fullmatch(name)]
    except FileNotFoundError:
        names = []
    found = []
    for name in names:
        record = read_facts(os.path.join(folder, name))
        if record is not None:
            found.append({**record, "kept": has_live_keeper(os.path.join(folder, name))})
    found += [record for record in list_hibernated(run) if record["id"] not in names]
    return sorted(found, key=lambda record: float(str(record.get("opened", 0))))


def list_hibernated(run: os.PathLike[str] | str) -> list[dict[str, object]]:
    """List hibernated desks; they have no keeper."""
    folder = os.path.join(run, "hibernated")
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found.append({**json.load(file), "kept": True})
        except (OSError, ValueError, TypeError):
            continue  # it is just being resumed
    return found


def is_hibernated(folder: os.PathLike[str] | str, desk: str) -> bool:
    """Return whether a desk is listed as hibernated: in `run`, or for root in `lib`, which outlives a restart."""
    return bool(ID_SHAPE.fullmatch(desk)) and os.path.exists(os.path.join(folder, "hibernated", f"{desk}.json"))


def list_unlisted(run: os.PathLike[str] | str, lib: os.PathLike[str] | str) -> list[str]:
    """List hibernated desks that `run` does not list: after a restart of the machine, until a keeper runs."""
    try:
        names = [name.removesuffix(".json") for name in os.listdir(os.path.join(lib, "hibernated"))]
    except OSError:
        return []  # none, or not root
    return sorted(name for name in names if ID_SHAPE.fullmatch(name) and not is_hibernated(run, name))


def may_be_resumed(lib: os.PathLike[str] | str, desk: str) -> bool:
    """Return whether a hibernated desk is on disk, listed or not; also if that cannot be read."""
    try:
        os.stat(os.path.join(lib, "hibernated", f"{desk}.json"))
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def has_live_keeper(folder: os.PathLike[str] | str) -> bool:
    lock = take(folder)
    if lock is None:
        return True
    os.close(lock)
    return False


def take(folder: os.PathLike[str] | str) -> int | None:
    """Take a desk's lock if it is free. A folder without a lock file gets one, so that it can be cleaned up."""
    path = os.path.join(folder, "owner.lock")
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        try:
            lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino == os.stat(path).st_ino:
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass  # it is locked, or the desk was removed meanwhile
    os.close(lock)
    return None


def compute_age(record: dict[str, object]) -> float:
    return max(0.0, time.time() - float(str(record.get("opened", time.time()))))
