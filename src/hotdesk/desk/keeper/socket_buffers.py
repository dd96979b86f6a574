"""Watch the socket buffers of desks on cgroup v1, where no memory limit covers them.

The kernel lets every socket queue one packet in each direction whatever the limits are, and a desk's memory limit
allows tens of thousands of sockets. On cgroup v1 those packets are not charged to the desk: `memory.kmem.tcp` counts
them, but its limit only slows each socket down. So the counters are read here, and a desk above the limit is burnt. On
cgroup v2 the packets are charged to the desk's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hotdesk.desk.keeper.burn import Burn, contain
from hotdesk.desk.keeper.tracked import TrackedDesk, read_clock

_MAX_UNREAD_BYTES = 96 << 20
"""Maximum unread bytes in a desk's sockets: three times the limit at which the kernel slows them down."""
_SUSPECT_BYTES = 24 << 20
"""Unread bytes above which a desk is checked more often."""
POLL_INTERVAL_S, SUSPECT_POLL_INTERVAL_S = 0.25, 0.02
"""Seconds between two checks: normally, and while a desk is above `_SUSPECT_BYTES`."""
WHY = (
    f"its sockets had more than {_MAX_UNREAD_BYTES >> 20} MiB of unread data; read received data, or use fewer sockets"
)


class BufferWatch:
    """Checks the unread bytes in the sockets of desks."""

    def __init__(self, desks: Mapping[str, TrackedDesk], burn: Burn) -> None:
        self.desks = desks
        self.burn = burn
        self.look = 0.0
        """When to check next."""

    def list_flooded(self) -> list[str]:
        """Return the desks above the limit, if a check is due."""
        if self.look > read_clock():
            return []
        unread = {}
        for desk, tracked in list(self.iterate_running()):
            with contain(desk, self.burn):
                unread[desk] = tracked.room.cgroup.measure_unread_bytes()
        self.look = read_clock() + (
            SUSPECT_POLL_INTERVAL_S if any(size > _SUSPECT_BYTES for size in unread.values()) else POLL_INTERVAL_S
        )
        return [desk for desk, size in unread.items() if size > _MAX_UNREAD_BYTES]

    def iterate_waits(self) -> Iterator[float]:
        """Yield seconds until the next check."""
        if any(True for _ in self.iterate_running()):
            yield self.look - read_clock()

    def iterate_running(self) -> Iterator[tuple[str, TrackedDesk]]:
        return (
            (desk, tracked)
            for desk, tracked in self.desks.items()
            if tracked.init and not tracked.paused and tracked.room.cgroup.version == 1
        )
