"""The state directory of desks: one folder per desk, with `desk.json` and a lock held while its keeper lives.

`ps` and `burn` need only these files. A desk whose lock is free has no keeper, and the next command cleans it up.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from hotdesk.config import GIB, MIB, Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper.hibernated import describe_unlisted
from hotdesk.desk.records import ID_SHAPE, list_desks, list_unlisted
from hotdesk.desk.records import compute_age as compute_age
from hotdesk.desk.records import has_live_keeper as has_live_keeper
from hotdesk.desk.records import read_facts as read_facts
from hotdesk.desk.records import take as take
from hotdesk.desk.room.disk import Disk
from hotdesk.desk.room.rootfs import name_hibernated
from hotdesk.errors import HostError, KeeperError
from hotdesk.linux import syscalls, uids
from hotdesk.linux.cgroup import Cgroup, Hierarchies, read_headroom

SCHEMA = 1
_ABANDONED_AFTER_S = 60.0
"""Seconds after which a folder that is being made or removed counts as abandoned."""


@dataclass(slots=True)
class DeskRecord:
    """A desk's folder; this process owns it while it holds the lock."""

    folder: Path
    lock: int
    facts: dict[str, object] = field(default_factory=dict)

    def note(self, **facts: object) -> None:
        """Write the current state atomically.

        The files are exchanged: ext4 flushes a file that replaces another, and removing it would wait for that.
        """
        self.facts.update(facts)
        file, fresh = f"{self.folder}/desk.json", f"{self.folder}/desk.json.new"
        with open(fresh, "w") as out:
            out.write(json.dumps(self.facts))
        try:
            syscalls.exchange(fresh, file)
        except OSError:
            os.replace(fresh, file)  # the first write, or a file system without exchange
        else:
            os.unlink(fresh)

    def leave(self) -> None:
        """Remove the folder: the desk no longer exists."""
        gone = self.folder.with_name(f"gone-{self.folder.name}")
        with suppress(FileNotFoundError):
            self.folder.rename(gone)  # readers see the whole folder or nothing
            remove(gone)
        os.close(self.lock)


def prepare(config: Config) -> None:
    """Make the state folders. Desks' users must be able to enter them, so no folder above may be closed to others."""
    for folder, mode in ((config.run, 0o711), (config.run / "desks", 0o711), (config.run / "runtime", 0o700)):
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    for above in (config.run, *config.run.parents):
        if not above.stat().st_mode & 0o001:
            raise HostError(
                f"other users cannot enter {above}, so no desk can start below it; run `chmod "
                f"o+x {above}`, or set HOTDESK_HOME"
            )


def enter(config: Config, desk: str, facts: dict[str, object]) -> DeskRecord:
    folder = config.run / "desks" / desk
    fresh = folder.with_name(f"new-{desk}")
    fresh.mkdir(mode=0o700)
    lock = os.open(fresh / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        fresh.rename(folder)
    except OSError:
        os.close(lock)
        shutil.rmtree(fresh)
        raise KeeperError(f"desk {desk} exists already") from None
    record = DeskRecord(folder, lock)
    record.note(schema=SCHEMA, id=desk, state="opening", **facts)
    return record


def check_floors(config: Config) -> None:
    """Refuse if the machine is nearly full, instead of failing halfway through opening a desk."""
    for why in find_shortages(config).values():
        raise HostError(why)


def find_shortages(config: Config) -> dict[str, str]:
    """Return the resources below their floor (disk, memory, processes), each with the reason and the remedy."""
    found = {}
    free = shutil.disk_usage(config.lib if config.lib.exists() else "/").free
    if free < config.disk_floor:
        found["disk"] = (
            f"only {free / GIB:.1f} GiB are free below {config.lib}, less than disk_floor "
            f"({config.disk_floor / GIB:.1f} GiB); "
            "burn desks, free some space, set HOTDESK_HOME to a folder on a larger disk, or lower disk_floor"
        )
    available = measure_available_memory()
    if available < config.memory_floor:
        found["memory"] = (
            f"only {available // MIB} MiB of memory are available, less than memory_floor "
            f"({config.memory_floor // MIB} MiB); burn desks, or lower memory_floor"
        )
    pids = _count_available_pids()
    if pids < config.pids_floor:
        found["processes"] = (
            f"only {pids} more processes can be started on this machine, less than pids_floor ({config.pids_floor}); "
            "burn desks, or lower pids_floor"
        )
    return found


def _count_available_pids(proc: Path = Path("/proc")) -> int:
    most = min(int((proc / "sys/kernel" / name).read_text()) for name in ("pid_max", "threads-max"))
    return most - int((proc / "loadavg").read_text().split()[3].partition("/")[2])


def measure_available_memory() -> int:
    """Return the available memory in bytes, limited by the container's limit if desks are below it."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) * 1024, read_headroom())
    return read_headroom()


def list_own_desks(config: Config) -> list[dict[str, object]]:
    """List the desks of this state directory, oldest first, each with `kept`: whether it has a live keeper."""
    found = list_desks(config.run)
    if list_unlisted(config.run, config.lib):
        listed = {record["id"] for record in found}
        found = [record for record in describe_unlisted(config) if record["id"] not in listed] + found
    return found


def _list_folders(config: Config) -> list[Path]:
    try:
        return [entry for entry in (config.run / "desks").iterdir() if ID_SHAPE.fullmatch(entry.name)]
    except FileNotFoundError:
        return []


def sweep(config: Config) -> None:
    """Remove folders of desks whose keeper was killed while it made or removed them, and sockets of dead owners."""
    for sock in (config.run / "control").glob("*.sock"):
        if sock.stem.isdigit() and not Path(f"/proc/{sock.stem}").exists():
            sock.unlink(missing_ok=True)
    for prefix in ("new-", "gone-"):
        for folder in (config.run / "desks").glob(f"{prefix}*"):
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S:
                    shutil.rmtree(folder)


def list_orphans(config: Config) -> list[str]:
    return [folder.name for folder in _list_folders(config) if not has_live_keeper(folder)]


def bury(config: Config, hierarchies: Hierarchies, desk: str, disk: Callable[[], Disk]) -> list[str]:
    """Burn a desk whose keeper is dead; its mounts ended with the keeper. Return what could not be removed."""
    folder = config.run / "desks" / desk
    lock = take(folder)
    if lock is None:
        return []
    record = read_facts(folder) or {}
    cgroup = Cgroup(hierarchies, desk)
    leftovers = [] if cgroup.kill() else [f"processes {sorted(cgroup.list_pids())} could not be killed"]
    leftovers += clear_runtime(config, desk)
    try:
        cgroup.remove()
        layers = disk()
        for name in layers.list_leftovers():
            if name.partition(".")[0] == desk and not is_hibernated(config, name):
                layers.drop(name)
    except (OSError, HostError) as e:
        leftovers.append(str(e))
    base = record.get("base")
    if not leftovers:
        DeskRecord(folder, lock).leave()
        if isinstance(base, int):
            uids.release(base, folder)
    else:
        os.close(lock)
    return leftovers


def is_hibernated(config: Config, name: str) -> bool:
    desk = name.partition(".")[0]
    return name == name_hibernated(desk) and (config.lib / "hibernated" / f"{desk}.json").exists()


def clear_runtime(config: Config, desk: str) -> list[str]:
    try:
        remove(config.run / "runtime" / desk)
    except FileNotFoundError:
        pass
    except OSError as e:
        return [str(e)]
    return []


def remove(folder: Path) -> None:
    """Remove a folder that contains only files; a general removal takes ten times as long."""
    for name in os.listdir(folder):
        os.unlink(f"{folder}/{name}")
    os.rmdir(folder)
