"""What is done to an open desk from outside at once: counting, pausing, giving it away, dialling."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from hotdesk.desk.keeper import screen_programs
from hotdesk.desk.keeper.tracked import TrackedDesk, now
from hotdesk.desk.request import KeeperRequest
from hotdesk.errors import BriefError, DeskError
from hotdesk.linux import netstat, syscalls

FREEZING = 0.25
"""Seconds a desk may take to stop while the keeper waits for it."""
AGAIN, MOMENT = 0.04, 0.002
"""Seconds after which a desk that has not stopped is let go on, and for how long."""
HUSHING = 0.1
"""Seconds between two looks at a hushed desk, for what its screen or browser started since."""


def usage(held: TrackedDesk, _request: KeeperRequest) -> dict[str, object]:
    """Read what a desk uses."""
    disk = held.room.disk.used(held.room.desk, held.room.folder / "disk")
    return {**held.room.cgroup.usage(), "disk": disk, "outgoing": syscalls.in_netns(held.room.netns, netstat.outgoing)}


def touch(held: TrackedDesk) -> None:
    """Note that a desk is in use, and have its programs see what it uses."""
    held.touched = now()
    if not (held.paused or held.down or held.runtime):
        with suppress(OSError):  # it may be ending
            held.room.show_use()


def pause(held: TrackedDesk, _request: KeeperRequest) -> dict[str, object]:
    """Freeze a desk; one that does not stop goes on. One that is down is still enough."""
    if not held.paused and not held.down:
        if held.spare:
            held.room.cgroup.favour(True)  # what is given no processor time does not come to a stop
        freeze(held)
        held.paused = True
        held.record.note(state="ready" if held.spare else "paused")
    return {}


def resume(held: TrackedDesk, _request: KeeperRequest) -> dict[str, object]:
    """Thaw a desk."""
    if held.paused:
        held.room.cgroup.freeze(False)
        held.paused = False
        held.touched = now()
        held.record.note(state="open")
    return {}


def hush(held: TrackedDesk, request: KeeperRequest) -> dict[str, object]:
    """Have all but the desk's screen, window manager and browser stand still, or let it go on."""
    if request.hushed and not held.hushed:
        if held.paused or held.down or held.spare:
            raise DeskError(f"desk {held.room.desk} is {held.down or 'paused'}; resume it first")
        try:
            silence(held)
        except OSError:
            held.room.cgroup.unhush()
            raise
        held.hushed, held.look = True, now()
    elif held.hushed and not request.hushed:
        held.room.cgroup.unhush()
        held.hushed = False
        held.touched = now()
    return {}


def silence(held: TrackedDesk) -> None:
    """Sort a desk's processes while none of them can start another; one that does not stop for it is left as it was."""
    room = held.room
    freeze(held)
    try:
        stays = screen_programs.programs(room.folder, room.base)
        room.cgroup.hush([pid for pid in room.cgroup.loud() if not screen_programs.runs(pid, stays)])
    finally:
        room.cgroup.freeze(False)


def keep_hushed(desks: Iterable[TrackedDesk]) -> None:
    """Silence also what a screen or a browser has started since."""
    for held in list(desks):
        if held.hushed and held.look <= now():
            held.look = now() + HUSHING
            if not (held.paused or held.busy or held.down):
                with suppress(OSError, DeskError):  # one that does not stop now is looked at again
                    silence_newcomers(held)


def silence_newcomers(held: TrackedDesk) -> None:
    """Silence what runs in a hushed desk and should not."""
    stays = screen_programs.programs(held.room.folder, held.room.base)
    if not all(screen_programs.runs(pid, stays) for pid in held.room.cgroup.loud()):
        silence(held)


def patience(desks: Iterable[TrackedDesk]) -> Iterator[float]:
    """Give seconds until a hushed desk is looked at."""
    return (held.look - now() for held in desks if held.hushed)


def freeze(held: TrackedDesk) -> None:
    """Stop everything in a desk, or nothing."""
    begin_freezing(held)
    if not has_stopped(held, FREEZING):
        held.room.cgroup.freeze(False)
        raise goes_on(held, FREEZING)


def begin_freezing(held: TrackedDesk) -> None:
    """Tell everything in a desk to stop; what is amid a call to its disk does so when that returns."""
    if held.root is not None and not held.root.proven:
        raise DeskError(f"desk {held.room.desk} is starting its root; try again")
    held.room.cgroup.freeze(True)


def has_stopped(held: TrackedDesk, seconds: float) -> bool:
    """Wait until everything in a desk has stopped; say whether it did in time."""
    end = now() + seconds
    again = now() + AGAIN
    while not held.room.cgroup.frozen():
        if now() > end:
            return False
        if now() > again:  # who waits for a child amid vfork stops only when that goes on: let both
            held.room.cgroup.freeze(False)
            time.sleep(MOMENT)
            begin_freezing(held)
            again = now() + AGAIN
        time.sleep(0.0002)
    return True


def goes_on(held: TrackedDesk, seconds: float) -> DeskError:
    """Say that a desk did not stop in time."""
    return DeskError(f"desk {held.room.desk} did not stop within {seconds} s; it goes on")


def forget(held: TrackedDesk, request: KeeperRequest) -> dict[str, object]:
    """Delete a snapshot."""
    held.room.layers.forget(request.snapshot)
    note_snapshots(held)
    return {}


def note_snapshots(held: TrackedDesk) -> None:
    """Write down which snapshots there are, for whoever lists desks."""
    held.record.note(snapshots=list(held.room.layers.snapshots))


def claim(held: TrackedDesk, request: KeeperRequest) -> dict[str, object]:
    """Give a desk that was kept ready to whoever asked for one like it."""
    if not held.spare:
        raise BriefError(f"desk {held.room.desk} is not kept ready; it is somebody's")
    if request.spec.tenant != held.spec.tenant or request.spec.disk_in != held.spec.disk_in:
        raise BriefError(f"desk {held.room.desk} is kept ready for another tenant, or with another disk")
    if request.spec.wall != held.spec.wall:
        raise BriefError(f"desk {held.room.desk} is kept ready behind the wall {held.spec.wall}")
    if request.spec.sterile != held.spec.sterile:
        raise BriefError(
            f"desk {held.room.desk} is {'' if held.spec.sterile else 'not '}sterile, and cannot become another"
        )
    held.wall.settle(held.room, request.spec, held.init)
    held.room.settle(request.spec, request.ca)
    held.spec, held.spare, held.paused = request.spec, False, False
    held.touched = now()
    held.hard = held.ends = held.touched + request.spec.deadline
    held.room.cgroup.freeze(False)
    return {}


def note_claim(held: TrackedDesk) -> None:
    """Write down what a claimed desk is, for whoever lists desks: after it was handed over."""
    told = {"deadline": held.spec.deadline, "memory": held.spec.memory, "cpus": held.spec.cpus}
    held.record.note(state="open", opened=time.time(), **told)


ACTS: dict[str, Callable[[TrackedDesk, KeeperRequest], dict[str, object]]] = {
    "usage": usage,
    "pause": pause,
    "resume": resume,
    "hush": hush,
    "forget": forget,
    "claim": claim,
}
"""What is done at once, by its verb, and answered in a word."""


def dial(held: TrackedDesk, port: int) -> socket.socket:
    """Give a connection, made or about to be, to a server on a desk's own loopback."""
    held.touched = now()
    try:
        return held.wall.dial(held.room, port)
    except OSError as e:
        raise DeskError(f"desk {held.room.desk}: {e.strerror or e}") from e
