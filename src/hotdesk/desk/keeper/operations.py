"""Immediate operations on an open desk from outside: usage, pause, claim, dial."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from hotdesk.desk.keeper import screen_programs
from hotdesk.desk.keeper.burn import Burn, contain
from hotdesk.desk.keeper.tracked import TrackedDesk, read_clock
from hotdesk.desk.request import KeeperRequest
from hotdesk.errors import BriefError, DeskError
from hotdesk.linux import netstat, syscalls

_FREEZE_TIMEOUT_S = 0.25
"""Seconds a desk may take to freeze while the keeper waits for it."""
THAW_AFTER_S, THAW_S = 0.04, 0.002
"""Seconds after which a desk that has not frozen is thawed briefly, and for how long."""
_HUSH_INTERVAL_S = 0.1
"""Seconds between two checks of a suspended desk for processes that its screen or browser has started."""


def read_usage(tracked: TrackedDesk, _request: KeeperRequest) -> dict[str, object]:
    disk = tracked.room.disk.measure_usage(tracked.room.desk, tracked.room.folder / "disk")
    counted = tracked.room.cgroup.read_usage()
    if not tracked.wall.traits.counts_programs:
        counted["processes"] = 0  # the host sees threads of the desk's kernel, not its programs
    return {
        **counted,
        "disk": disk,
        "outgoing": syscalls.run_in_netns(tracked.room.netns, netstat.count_outgoing),
    }


def touch(tracked: TrackedDesk) -> None:
    """Record that a desk is in use, and update the usage figures its programs see."""
    tracked.touched = read_clock()
    if not (tracked.paused or tracked.down or tracked.runtime):
        with suppress(OSError):  # it may be ending
            tracked.room.show_use()


def pause(tracked: TrackedDesk, _request: KeeperRequest) -> dict[str, object]:
    """Freeze a desk. One that does not freeze in time continues. A halted one counts as frozen."""
    if not tracked.paused and not tracked.down:
        if tracked.spare:
            tracked.room.cgroup.set_cpu_share(True)  # a process without a share of the processor never freezes
        freeze(tracked)
        tracked.paused = True
        tracked.record.note(state="ready" if tracked.spare else "paused")
    return {}


def resume(tracked: TrackedDesk, _request: KeeperRequest) -> dict[str, object]:
    if tracked.paused:
        tracked.room.cgroup.freeze(False)
        tracked.paused = False
        tracked.touched = read_clock()
        tracked.record.note(state="open")
    return {}


def suspend(tracked: TrackedDesk, request: KeeperRequest) -> dict[str, object]:
    """Freeze all but the desk's screen, window manager and browser, or thaw it."""
    if request.suspended and not tracked.suspended:
        if not tracked.wall.traits.can_stop_programs:
            raise BriefError(f"the wall {tracked.wall.name} of desk {tracked.room.desk} cannot stop single programs")
        if tracked.paused or tracked.down or tracked.spare:
            raise DeskError(f"desk {tracked.room.desk} is {tracked.down or 'paused'}; resume it first")
        try:
            silence(tracked)
        except OSError:
            tracked.room.cgroup.resume_suspended()
            raise
        tracked.suspended, tracked.look = True, read_clock()
    elif tracked.suspended and not request.suspended:
        tracked.room.cgroup.resume_suspended()
        tracked.suspended = False
        tracked.touched = read_clock()
    return {}


def silence(tracked: TrackedDesk) -> None:
    """Hush a desk's processes while all are frozen, so that none starts another. If one does not freeze, none is."""
    room = tracked.room
    freeze(tracked)
    try:
        stays = screen_programs.find_spared_programs(room.folder, room.base)
        room.cgroup.suspend([pid for pid in room.cgroup.list_unsuspended() if not screen_programs.runs(pid, stays)])
    finally:
        room.cgroup.freeze(False)


def keep_suspended(desks: Iterable[TrackedDesk], burn: Burn) -> None:
    """Hush the processes that a screen or browser has started since the last check."""
    for tracked in list(desks):
        if tracked.suspended and tracked.look <= read_clock():
            tracked.look = read_clock() + _HUSH_INTERVAL_S
            if not (tracked.paused or tracked.busy or tracked.down):
                # one that does not freeze now is tried again
                with contain(tracked.room.desk, burn), suppress(OSError, DeskError):
                    _silence_newcomers(tracked)


def _silence_newcomers(tracked: TrackedDesk) -> None:
    stays = screen_programs.find_spared_programs(tracked.room.folder, tracked.room.base)
    if not all(screen_programs.runs(pid, stays) for pid in tracked.room.cgroup.list_unsuspended()):
        silence(tracked)


def iterate_waits(desks: Iterable[TrackedDesk]) -> Iterator[float]:
    """Yield seconds until the next check of each suspended desk."""
    return (tracked.look - read_clock() for tracked in desks if tracked.suspended)


def freeze(tracked: TrackedDesk) -> None:
    begin_freezing(tracked)
    if not has_stopped(tracked, _FREEZE_TIMEOUT_S):
        tracked.room.cgroup.freeze(False)
        raise make_not_stopped_error(tracked, _FREEZE_TIMEOUT_S)


def begin_freezing(tracked: TrackedDesk) -> None:
    """Start freezing all processes in a desk. A process in a blocking disk call freezes when the call returns."""
    if tracked.root is not None and not tracked.root.proven:
        raise DeskError(f"the process for root in desk {tracked.room.desk} is still starting; try again")
    tracked.room.cgroup.freeze(True)


def has_stopped(tracked: TrackedDesk, seconds: float) -> bool:
    """Wait until all processes in a desk are frozen; return whether that happened in time."""
    end = read_clock() + seconds
    again = read_clock() + THAW_AFTER_S
    while not tracked.room.cgroup.is_frozen():
        if read_clock() > end:
            return False
        if read_clock() > again:  # a parent in vfork freezes only when its child continues: thaw both
            tracked.room.cgroup.freeze(False)
            time.sleep(THAW_S)
            begin_freezing(tracked)
            again = read_clock() + THAW_AFTER_S
        time.sleep(0.0002)
    return True


def make_not_stopped_error(tracked: TrackedDesk, seconds: float) -> DeskError:
    return DeskError(f"desk {tracked.room.desk} did not stop within {seconds} s; it keeps running")


def forget(tracked: TrackedDesk, request: KeeperRequest) -> dict[str, object]:
    tracked.room.layers.forget(request.snapshot)
    note_snapshots(tracked)
    return {}


def note_snapshots(tracked: TrackedDesk) -> None:
    tracked.record.note(snapshots=list(tracked.room.layers.snapshots))


def claim(tracked: TrackedDesk, request: KeeperRequest) -> dict[str, object]:
    if not tracked.spare:
        raise BriefError(f"desk {tracked.room.desk} is not a ready desk of the pool; it is in use")
    if request.spec.tenant != tracked.spec.tenant or request.spec.disk_in != tracked.spec.disk_in:
        raise BriefError(f"desk {tracked.room.desk} was prepared for another tenant or another `disk_in`")
    if request.spec.wall != tracked.spec.wall:
        raise BriefError(
            f"desk {tracked.room.desk} was prepared behind the wall {tracked.spec.wall}, not {request.spec.wall}"
        )
    if request.spec.sterile != tracked.spec.sterile:
        raise BriefError(
            f"desk {tracked.room.desk} was {'' if tracked.spec.sterile else 'not '}prepared to verify files (sterile)"
        )
    if request.spec.volumes:
        raise BriefError(f"desk {tracked.room.desk} was prepared without volumes, and none can be mounted later")
    tracked.wall.settle(tracked.room, request.spec, tracked.init)
    tracked.room.settle(request.spec, request.ca)
    tracked.spec, tracked.spare, tracked.paused = request.spec, False, False
    tracked.touched = read_clock()
    tracked.hard = tracked.ends = tracked.touched + request.spec.deadline
    tracked.room.cgroup.freeze(False)
    return {}


def note_claim(tracked: TrackedDesk) -> None:
    """Record a claimed desk's facts for listings, after it was handed over."""
    facts = {"deadline": tracked.spec.deadline, "memory": tracked.spec.memory, "cpus": tracked.spec.cpus}
    tracked.record.note(state="open", opened=time.time(), **facts)


ACTS: dict[str, Callable[[TrackedDesk, KeeperRequest], dict[str, object]]] = {
    "usage": read_usage,
    "pause": pause,
    "resume": resume,
    "suspend": suspend,
    "forget": forget,
    "claim": claim,
}
"""Requests that are carried out and answered at once, by verb."""


def dial(tracked: TrackedDesk, port: int) -> socket.socket:
    tracked.touched = read_clock()
    try:
        return tracked.wall.dial(tracked.room, port)
    except OSError as e:
        raise DeskError(f"cannot connect to port {port} of desk {tracked.room.desk}: {e.strerror or e}") from e
