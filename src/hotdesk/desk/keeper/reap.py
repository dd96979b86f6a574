"""Clean up desks without a live keeper: those of killed keepers, and disks left after a power failure."""

from __future__ import annotations

from collections.abc import Callable

from hotdesk.config import Config
from hotdesk.desk.keeper import state
from hotdesk.desk.keeper.hibernated import HibernatedDesks
from hotdesk.desk.room.disk import Disk
from hotdesk.desk.seam import ID_SHAPE
from hotdesk.linux import uids
from hotdesk.linux.cgroup import Hierarchies


def collect(settings: Config, hierarchies: Hierarchies, disk: Callable[[], Disk]) -> None:
    """Burn the desks of killed keepers. Those that resist stay listed, for the next keeper."""
    for desk in state.list_orphans(settings):
        state.bury(settings, hierarchies, desk, disk)
    state.sweep(settings)
    uids.sweep(settings.run / "desks")
    if (settings.lib / "pool.btrfs").exists():
        HibernatedDesks(settings, disk).tidy()
        _drop_layers(settings, disk())


def _drop_layers(settings: Config, pool: Disk) -> None:
    """Delete disks and snapshots of desks that no longer exist: after a power failure the pool still has them."""
    for name in pool.list_leftovers():
        desk = name.partition(".")[0]
        if not ID_SHAPE.fullmatch(desk) or (settings.run / "desks" / desk).exists():
            continue
        if not state.is_hibernated(settings, name):
            pool.drop(name)
