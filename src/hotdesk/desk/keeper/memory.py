"""Save the memory of desks: for live forks while they run, or to hibernate them.

The wall starts a process that writes the memory (`Wall.save_memory`). A thread waits for it, because the desk
determines how long that takes. The memory is written into the layer, so that one snapshot has files and memory of the
same moment.
"""

from __future__ import annotations

import functools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper.burn import Burn, contain
from hotdesk.desk.keeper.hibernated import HibernatedDesk, HibernatedDesks
from hotdesk.desk.keeper.operations import note_snapshots
from hotdesk.desk.keeper.root import Teller
from hotdesk.desk.keeper.tracked import TrackedDesk, read_clock
from hotdesk.desk.request import describe_spec
from hotdesk.desk.wall.seam import GO, MemoryWriter
from hotdesk.errors import BriefError, DeskError, DeskGone, HotdeskError, KeeperError
from hotdesk.linux import syscalls
from hotdesk.walls import list_memory_walls

WRITE_TIMEOUT_S = 370.0
"""Seconds a desk's memory may take to be written."""
_END_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class MemoryOutcome:
    """The result of saving a desk's memory."""

    number: int
    tracked: TrackedDesk
    stop: bool
    snapshot: str
    failure: HotdeskError | None
    is_told: bool = False
    """Whether its owner was answered when the snapshot was taken; this outcome then says if programs continued."""


class MemorySaves:
    """The memory saves of one keeper. A byte is written to `wake` when one is done."""

    def __init__(
        self,
        desks: dict[str, TrackedDesk],
        owner: Teller,
        has_room: Callable[[], None],
        hibernated: HibernatedDesks,
        burn: Burn,
    ) -> None:
        self.desks = desks
        self.owner = owner
        self.has_room = has_room
        self.hibernated = hibernated
        self.burn = burn
        self.wake = -1
        self.outcomes: deque[MemoryOutcome] = deque()

    def check(self, tracked: TrackedDesk, stop: bool) -> None:
        """Refuse an impossible save before the guest is asked to disconnect."""
        desk, spec = tracked.room.desk, tracked.spec
        if not tracked.wall.traits.can_keep_memory:
            raise BriefError(
                f"the memory of desk {desk} cannot be saved: the wall {tracked.wall.name} "
                "cannot save running programs. "
                f"Open a desk with the wall {list_memory_walls()}, or save files only (without memory)"
            )
        if spec.volumes:
            raise BriefError(
                f"the memory of desk {desk} cannot be saved: other desks may change its volumes meanwhile. Open a desk "
                "without volumes, or save files only (without memory)"
            )
        if spec.disk_in == "memory":
            raise BriefError(
                f"the memory of desk {desk} cannot be saved: its disk is in memory. Open a desk with disk_in='disk'"
            )
        if stop and not tracked.room.disk.is_durable:
            raise BriefError(
                f"desk {desk} cannot be hibernated: its disk is lost when its keeper process ends. Set "
                'disk = "btrfs" in config.toml, or pause the desk in memory'
            )
        if tracked.paused or tracked.suspended or tracked.down or tracked.runtime or tracked.spare:
            raise DeskError(f"the memory of desk {desk} cannot be saved: {_explain_state(tracked)}")
        self.has_room()

    def begin(self, number: int, tracked: TrackedDesk, stop: bool, token: str = "") -> None:
        """Start saving a desk's memory; `turn` answers, in every case with a socket for the guest's next connection."""
        started: SimpleQueue[MemoryWriter | None] = SimpleQueue()
        try:
            self.check(tracked, stop)
            if tracked.root is not None:
                raise DeskError(f"the process for root in desk {tracked.room.desk} is still ending; try again")
            # before the writer: without a thread, nothing would let the programs continue
            _start_thread(functools.partial(self.work, number, tracked, started, stop, token))
            tracked.room.layers.make_memory()
            writer = tracked.wall.save_memory(tracked.room, stop=stop)
        except (HotdeskError, OSError) as e:
            started.put(None)
            failure = e if isinstance(e, HotdeskError) else KeeperError(str(e))
            self.finish(MemoryOutcome(number, tracked, stop, "", failure))
            return
        tracked.busy = True
        if stop:
            tracked.down = "hibernating"
        started.put(writer)

    # -- in a thread ------------------------------------------------------------------------------------------

    def work(
        self, number: int, tracked: TrackedDesk, started: SimpleQueue[MemoryWriter | None], stop: bool, token: str
    ) -> None:
        """Wait until the memory is written, and snapshot the layer that contains it."""
        if (writer := started.get()) is None:
            return
        snapshot, failure = "", None
        try:
            if stop:
                self.put_away(tracked, writer, token)
            else:
                snapshot = self.copy(tracked, writer)
                self.tell(MemoryOutcome(number, tracked, stop, snapshot, None))
                self.let_go_on(tracked, writer)
        except HotdeskError as e:
            failure = e
        except OSError as e:
            failure = KeeperError(str(e))
        except Exception as e:  # noqa: BLE001 - outer boundary: an error that ends a thread would go unnoticed
            failure = KeeperError(f"internal error of the keeper: {e!r}")
        finally:
            syscalls.close_all((writer.report, writer.go))
        self.tell(MemoryOutcome(number, tracked, stop, snapshot, failure, is_told=bool(snapshot)))

    def tell(self, outcome: MemoryOutcome) -> None:
        self.outcomes.append(outcome)
        with suppress(BlockingIOError):  # a full pipe wakes the reader as well
            os.write(self.wake, b"1")

    def copy(self, tracked: TrackedDesk, writer: MemoryWriter) -> str:
        """Take a snapshot of files and memory while no program runs; if that fails, let programs continue."""
        try:
            if not hear(writer):
                raise explain(tracked, tracked.wall.explain_memory(tracked.room))
            return tracked.room.layers.snapshot()
        except BaseException:
            self.let_go_on(tracked, writer)
            raise

    def let_go_on(self, tracked: TrackedDesk, writer: MemoryWriter) -> None:
        tracked.room.layers.drop_memory()  # programs may need its space at once
        with suppress(BrokenPipeError):
            os.write(writer.go, GO)
        goes_on = hear(writer)
        if not goes_on:
            why = tracked.wall.explain_memory(tracked.room)
            raise KeeperError(
                f"the programs of desk {tracked.room.desk} did not continue after its memory was saved: {why}; burn "
                "the desk and open another"
            )

    def put_away(self, tracked: TrackedDesk, writer: MemoryWriter, token: str) -> None:
        room = tracked.room
        if not hear(writer):
            why = tracked.wall.explain_memory(room)
            self.let_go_on(tracked, writer)
            raise explain(tracked, why)
        if not room.cgroup.kill(_END_TIMEOUT_S):
            raise KeeperError(
                f"desk {room.desk} could not be hibernated: its memory was saved, but some of its processes could not "
                "be killed; burn the desk"
            )
        size = room.layers.hibernate()
        until = time.time() + max(0.0, tracked.ends - read_clock())
        spec = describe_spec(tracked.spec)
        record = HibernatedDesk(room.desk, spec, room.image.digest, token, size, until, time.time())
        self.hibernated.write(record, room.image, room.stage)

    # -- in the keeper's loop ---------------------------------------------------------------------------------

    def turn(self) -> None:
        while self.outcomes:
            outcome = self.outcomes.popleft()
            refuse = functools.partial(self.owner.refuse, outcome.number)
            with contain(outcome.tracked.room.desk, self.burn, refuse):
                self.finish(outcome)

    def finish(self, outcome: MemoryOutcome) -> None:
        """Answer the request; a desk that runs on accepts its guest's connection again."""
        tracked, failure = outcome.tracked, outcome.failure
        desk, room = tracked.room.desk, tracked.room
        tracked.busy = bool(outcome.snapshot) and not outcome.is_told
        if outcome.is_told:
            if failure is not None:
                self.burn(desk, f"its programs did not continue: {failure}")
            return
        if self.desks.get(desk) is not tracked:
            if outcome.stop and tracked.is_unwanted:
                self.hibernated.forget(desk)
            self.owner.refuse(outcome.number, DeskGone(f"desk {desk} is gone; open another"))
            return
        if outcome.stop and failure is None:
            tracked.down, tracked.init = "hibernated", 0
            tracked.record.note(state="hibernated")
            self.reply(outcome, 0, 0)
            return
        if tracked.down == "hibernating" and not tracked.init:
            self.owner.refuse(outcome.number, DeskGone(f"desk {desk} ended while it was being hibernated: {failure}"))
            self.burn(desk, "it ended while it was being hibernated")
            return
        tracked.down = "" if tracked.down == "hibernating" else tracked.down
        tracked.touched = read_clock()
        note_snapshots(tracked)
        self.reply(outcome, *tracked.wall.find_caller(room, tracked.init))

    def reply(self, outcome: MemoryOutcome, caller: int, uid: int) -> None:
        """Send the owner the socket at which the guest connects next, soon or after hibernation."""
        room = outcome.tracked.room
        room.await_guest()
        assert room.listener is not None
        reply = {
            "failure": str(outcome.failure or ""),
            "snapshot": outcome.snapshot,
            "caller": caller,
            "uid": uid,
            "start_seconds": outcome.tracked.wall.traits.start_seconds,
        }
        self.owner.send({"re": outcome.number, "ok": reply}, room.listener.fileno())
        room.hang_up()


def _start_thread(work: Callable[[], None]) -> None:
    try:
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError as e:
        raise KeeperError(f"no thread could be started for saving the memory: {e}; try again later") from e


def hear(writer: MemoryWriter) -> bool:
    """Wait for the writer's next message; return whether it reported success."""
    ready, _, _ = select.select([writer.report], [], [], WRITE_TIMEOUT_S)
    return bool(ready) and os.read(writer.report, 1) == GO


def _explain_state(tracked: TrackedDesk) -> str:
    if tracked.suspended:
        return "a person has control of the desk; try again after they hand it back"
    if tracked.runtime:
        return "the desk is starting; try again"
    if tracked.spare:
        return "the desk is kept ready and not in use; open it first"
    return (
        f"the desk is {tracked.down or 'paused'}; resume it with `hotdesk resume {tracked.room.desk}`, then try again"
    )


def explain(tracked: TrackedDesk, why: str) -> DeskError:
    """Return the error for a desk whose memory could not be written, with a remedy."""
    return DeskError(
        f"the memory of desk {tracked.room.desk} could not be saved: {why}. The desk keeps running. Correct this and "
        "try again, or save files only (without memory)"
    )
