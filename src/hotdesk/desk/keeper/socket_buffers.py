"""Socket buffers of desks, watched where no memory limit counts them.

The kernel lets every socket queue one packet in each direction whatever the limits say, and a desk's memory pays for
tens of thousands of sockets. On cgroup v1 those packets are no one's memory: `memory.kmem.tcp` counts them, but its
limit only slows each socket down. So they are read here, and a desk that has too much of them is burnt. On cgroup v2
they are charged to the desk's memory like all else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hotdesk.desk.keeper.tracked import TrackedDesk, read_clock

_MAX_UNREAD_BYTES = 96 << 20
"""Bytes a desk's sockets may have unread: thrice the limit at which the kernel slows them down."""
_SUSPECT_BYTES = 24 << 20
"""Bytes from which a desk is looked at often."""
POLL_INTERVAL_S, SUSPECT_POLL_INTERVAL_S = 0.25, 0.02
"""Seconds between two looks."""
WHY = (
    f"its sockets had more than {_MAX_UNREAD_BYTES >> 20} MiB of unread data; read received data, or use fewer sockets"
)


class BufferWatch:
    """Looks at what the sockets of desks have unread."""

    def __init__(self, desks: Mapping[str, TrackedDesk]) -> None:
        self.desks = desks
        self.look = 0.0
        """When to look next."""

    def list_flooded(self) -> list[str]:
        """Name the desks that have too much, if it is time to look."""
        if self.look > read_clock():
            return []
        unread = {desk: tracked.room.cgroup.measure_unread_bytes() for desk, tracked in self.iterate_running()}
        self.look = read_clock() + (
            SUSPECT_POLL_INTERVAL_S if any(size > _SUSPECT_BYTES for size in unread.values()) else POLL_INTERVAL_S
        )
        return [desk for desk, size in unread.items() if size > _MAX_UNREAD_BYTES]

    def iterate_waits(self) -> Iterator[float]:
        """Yield seconds until the next look."""
        if any(True for _ in self.iterate_running()):
            yield self.look - read_clock()

    def iterate_running(self) -> Iterator[tuple[str, TrackedDesk]]:
        return (
            (desk, tracked)
            for desk, tracked in self.desks.items()
            if tracked.init and not tracked.paused and tracked.room.cgroup.version == 1
        )
