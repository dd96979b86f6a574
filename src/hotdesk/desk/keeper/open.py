"""Open desks: prepare the room, run the runtime that starts the desk, and prove its wall."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from hotdesk.config import Config
from hotdesk.desk.image import guest_code
from hotdesk.desk.image.image import Image, ImageCatalog
from hotdesk.desk.image.sterile import Sterile
from hotdesk.desk.keeper import state
from hotdesk.desk.keeper.burn import Burning
from hotdesk.desk.keeper.hibernated import HibernatedDesk, HibernatedDesks, check_same
from hotdesk.desk.keeper.tracked import TrackedDesk, read_clock
from hotdesk.desk.request import KeeperRequest, parse_spec
from hotdesk.desk.room.disk import Disk, Memory, choose
from hotdesk.desk.room.room import Room
from hotdesk.desk.room.rootfs import name_hibernated
from hotdesk.desk.room.volume_store import VolumeStore
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.registry import Walls
from hotdesk.desk.wall.seam import StartError, Wall
from hotdesk.errors import BriefError, KeeperError
from hotdesk.linux import uids
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from hotdesk.linux.pace import scale_seconds
from hotdesk.walls import list_memory_walls

_CAPACITY_CHECK_INTERVAL_S = 0.1
"""Seconds for which a capacity check remains valid."""
START_TIMEOUT_S = 20.0
"""Seconds the runtime may take to start a desk."""


class Opening:
    """Opens the desks of one keeper."""

    def __init__(self, settings: Config, burning: Burning, owner: int) -> None:
        self.settings = settings
        self.owner = owner
        self.burning = burning
        self.hierarchies = find_hierarchies()
        self.guest_sources = guest_code.read_sources()
        self.images = ImageCatalog(settings.images)
        self.guests: dict[str, dict[str, bytes]] = {}
        """Guest bytecode compiled by images' own Pythons, by image digest."""
        self.walls = Walls(settings)
        self.sterile = Sterile(settings.images, settings.run / "private")
        self.volumes = VolumeStore(settings.lib / "volumes", settings.run / "private" / "volumes")
        self.hibernated = HibernatedDesks(settings, self.get_disk)
        self.pool: Disk | None = None
        self.checked = -_CAPACITY_CHECK_INTERVAL_S
        """When the machine last passed the capacity check."""

    def get_disk(self) -> Disk:
        if self.pool is None:
            self.pool = choose(self.settings)
        return self.pool

    def begin(self, number: int, request: KeeperRequest, origin: Room | None = None) -> TrackedDesk:
        """Prepare a room and start the runtime. A failure leaves nothing behind, or a desk that is burning.

        A fork has an `origin`, and uses exactly its image.
        """
        spec, desk = request.spec, request.desk
        wall = self.walls.find(spec.wall)
        _require_traits(wall, request)
        record = self.recall(request) if request.memory and origin is None else None
        picture = origin.image if origin is not None else self.find_image(spec, record)
        stage = origin.stage if origin is not None else self.find_stage(wall, record)
        shown = self.sterile.show(picture) if spec.sterile else {}
        source = None
        if origin is not None:
            _require_alike(origin, spec)
            source = origin.layers.find(request.snapshot)
        if record is not None:
            source = name_hibernated(desk)
            self.get_disk().adopt(source, record.size)
        self.check_floors()
        facts = {"image": spec.image, "wall": wall.name, "owner": self.owner, "keeper": os.getpid()}
        entry = state.enter(self.settings, desk, facts)
        room = standby = base = None
        try:
            base = uids.claim(entry.folder)
            entry.note(base=base, opened=time.time(), deadline=spec.deadline, memory=spec.memory, cpus=spec.cpus)
            room = self.build_room(request, wall, picture, base, shown, stage)
            room.is_resumed = record is not None
            room.cgroup.make(room.compute_limits(spec))
            if request.spare:
                room.cgroup.set_cpu_share(False, wall.traits.min_share)
            standby = wall.stand_by(room)
            room.prepare(self.load_guest_code(picture), request.ca, source)
            wall.prepare(room)
            runtime, console = standby.run()
        except BaseException:
            if standby is not None:
                standby.dismiss()
            if room is not None:
                pid = standby.pid if standby is not None else 0
                unfinished = TrackedDesk(wall, room, entry, spec, pid, -1, number, 0.0, 0.0)
                self.burning.begin(unfinished, "did not start")
            else:
                entry.leave()
                if base is not None:
                    uids.release(base, entry.folder)
            raise
        start = read_clock()
        hard = start + min(scale_seconds(START_TIMEOUT_S), spec.deadline)
        return TrackedDesk(wall, room, entry, spec, runtime, console, number, hard, start, spare=request.spare)

    def build_room(
        self,
        request: KeeperRequest,
        wall: Wall,
        image: Image,
        base: int,
        shown: Mapping[Path, Path],
        stage: Image | None,
    ) -> Room:
        """Return the room of a desk as its wall needs it. Nothing is created on the system yet."""
        spec, traits = request.spec, wall.traits
        disk = Memory() if spec.disk_in == "memory" else self.get_disk()
        folder, cgroup = self.settings.run / "private" / request.desk, Cgroup(self.hierarchies, request.desk)
        room = Room(request.desk, folder, cgroup, disk, base, image, spec, shown=shown)
        room.volume_store = self.volumes if spec.volumes else None
        room.memory = request.memory
        room.has_own_network, room.kernel_threads = not traits.can_dial, traits.kernel_threads
        room.kernel_memory, room.stage = traits.kernel_memory, stage
        return room

    def recall(self, request: KeeperRequest) -> HibernatedDesk:
        """Find the hibernated desk to resume; clean up the remains of a killed keeper first."""
        record = self.hibernated.find(request.desk)
        check_same(record, parse_spec(record.spec), request.spec)
        folder = self.settings.run / "desks" / request.desk
        if folder.exists() and not state.has_live_keeper(folder):
            state.bury(self.settings, self.hierarchies, request.desk, self.get_disk)
        return record

    def find_stage(self, wall: Wall, record: HibernatedDesk | None) -> Image | None:
        """Return the image that a desk's first process runs in, if that is not the desk's."""
        if not wall.traits.stage:
            return None
        pinned = self.hibernated.find_stage(record) if record is not None else None
        return pinned or self.images.find(wall.traits.stage)

    def find_image(self, spec: Spec, record: HibernatedDesk | None) -> Image:
        """Return the image of a desk; for a hibernated desk, exactly the image it was hibernated on."""
        if record is not None and (pinned := self.hibernated.find_image(record)) is not None:
            return pinned
        found = self.images.find(spec.image)
        if record is not None and found.digest != record.image:
            raise BriefError(
                f"desk {record.desk} cannot resume: image {spec.image!r} was rebuilt after the desk was hibernated; "
                "burn the desk and open another"
            )
        return found

    def check_floors(self) -> None:
        """Refuse if the machine is nearly full. The result is cached for a moment, because openings come in bursts."""
        if read_clock() - self.checked > _CAPACITY_CHECK_INTERVAL_S:
            state.check_floors(self.settings)
            self.checked = read_clock()

    def load_guest_code(self, picture: Image) -> dict[str, bytes]:
        """Return the guest's code for an image. Only bytecode is cached: source is replaced once bytecode exists."""
        if picture.digest not in self.guests:
            found = guest_code.load(self.settings.images, picture.digest, self.guest_sources)
            if found is self.guest_sources:
                return found
            self.guests[picture.digest] = found
        return self.guests[picture.digest]

    def begin_again(self, number: int, tracked: TrackedDesk) -> None:
        state.clear_runtime(self.settings, tracked.room.desk)
        tracked.room.reboot()
        tracked.wall.prepare(tracked.room)
        tracked.runtime, tracked.console = tracked.wall.stand_by(tracked.room).run()
        tracked.number, tracked.down = number, ""
        tracked.hard = min(read_clock() + scale_seconds(START_TIMEOUT_S), tracked.ends)
        tracked.record.note(state="starting")

    def prove(self, tracked: TrackedDesk, status: int, early: set[int]) -> None:
        """Handle the runtime's exit. Raise an error unless the desk's first process is up and behind its wall.

        `early` has the pids that exited before the runtime did: its children may end before it does.
        """
        desk, room = tracked.room.desk, tracked.room
        try:
            pid = tracked.wall.find_guest(room, status)
        except StartError as e:
            raise KeeperError(f"desk {desk} did not start: {e}") from e
        if pid in early:
            raise KeeperError(
                f"the first process of desk {desk} ended at once; its image {tracked.spec.image!r} may be damaged: "
                "build or import it again"
            )
        tracked.init = pid
        tracked.wall.prove(room, tracked.init)
        if not room.cgroup.holds(tracked.init):
            raise KeeperError(
                f"the wall failed its test: the first process of desk {desk} is outside the desk's cgroup; the desk "
                "was not opened"
            )
        tracked.proof = self.walls.describe(tracked.wall)
        if room.memory:
            room.layers.drop_memory()
            room.memory = room.is_resumed = False
        room.pin({tracked.init}, tracked.spec.cpus)
        tracked.touched = read_clock()
        tracked.hard = tracked.ends = min(tracked.ends, tracked.touched + tracked.spec.deadline)
        state_name = "ready" if tracked.spare else "open"
        tracked.record.note(pid=tracked.init, state=state_name, proof=tracked.proof.as_json())


def _require_traits(wall: Wall, request: KeeperRequest) -> None:
    if request.memory and not wall.traits.can_keep_memory:
        raise BriefError(f"the wall {wall.name} cannot save memory; open the desk with the wall {list_memory_walls()}")
    if request.spec.volumes and not wall.traits.can_mount_volumes:
        raise BriefError(
            f"volumes cannot be mounted behind the wall {wall.name}; leave them out, or choose another wall"
        )


def _require_alike(origin: Room, spec: Spec) -> None:
    """Refuse a fork for another tenant, or behind another wall than its origin."""
    if origin.spec.tenant != spec.tenant:
        raise BriefError(f"desk {origin.desk} belongs to another tenant and cannot be forked")
    if origin.spec.wall != spec.wall:
        raise BriefError(f"desk {origin.desk} has the wall {origin.spec.wall}; its forks must have the same wall")
