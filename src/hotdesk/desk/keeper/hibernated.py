"""Hibernated desks: for each, a snapshot of its layer including its memory, and a record.

Both outlive keeper and owner. The record is written last and removed first, so that data without a record can be
deleted.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.image import pin
from hotdesk.desk.image.image import Image
from hotdesk.desk.records import ID_SHAPE, list_unlisted
from hotdesk.desk.room.disk import Disk
from hotdesk.desk.room.rootfs import name_hibernated
from hotdesk.desk.seam import COMPUTER, Spec
from hotdesk.errors import BriefError, DeskGone, HotdeskError

FOLDER = "hibernated"


@dataclass(frozen=True, slots=True)
class HibernatedDesk:
    """The record of a hibernated desk."""

    desk: str
    spec: dict[str, object]
    """The desk's spec, as `request` encodes it."""
    image: str
    """The digest of the image its layer is based on."""
    token: str
    """The token its guest authenticates with."""
    size: int
    """Bytes of its disk, as they are accounted."""
    until: float
    """Its deadline, in seconds since 1970."""
    since: float


class HibernatedDesks:
    """The hibernated desks of one state directory."""

    def __init__(self, settings: Config, disk: Callable[[], Disk]) -> None:
        self.folder = settings.lib / FOLDER
        self.shown = settings.run / FOLDER
        """Where `hotdesk ps` reads its public facts."""
        self.desks = settings.run / "desks"
        self.images = settings.images
        self.disk = disk

    def get_path(self, desk: str) -> Path:
        return self.folder / f"{desk}.json"

    def has(self, desk: str) -> bool:
        return self.get_path(desk).exists()

    def write(self, record: HibernatedDesk, image: Image, stage: Image | None = None) -> None:
        """Record a desk as hibernated and pin its images. From then on only a burn or its deadline ends it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.folder / f".{record.desk}.new"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w") as file:
            json.dump({name: getattr(record, name) for name in record.__slots__}, file)
            file.flush()
            os.fsync(file.fileno())
        self.pin_images(record, image, stage)
        fresh.rename(self.get_path(record.desk))
        self.pin_images(record, image, stage)  # again: a sweep of the store may have removed pins without a record
        self.show(record)

    def pin_images(self, record: HibernatedDesk, image: Image, stage: Image | None) -> None:
        pin.pin(self.images, record.desk, image, self.get_path(record.desk))
        if stage is not None:
            pin.pin(self.images, record.desk + pin.STAGE, stage, self.get_path(record.desk))

    def show(self, record: HibernatedDesk) -> None:
        """Write a desk's facts for listings, without secrets."""
        self.shown.mkdir(mode=0o711, parents=True, exist_ok=True)
        (self.shown / f"{record.desk}.json").write_text(json.dumps(_describe(record)))

    def find(self, desk: str) -> HibernatedDesk:
        return _read(self.get_path(desk))

    def find_image(self, record: HibernatedDesk) -> Image | None:
        """Return exactly the image a desk used, even if its name belongs to another by now; `None` if it was lost."""
        image = pin.find_pinned(self.images, record.desk)
        return image if image is not None and image.digest == record.image else None

    def find_stage(self, record: HibernatedDesk) -> Image | None:
        """Return exactly the image that ran its virtual machine; `None` if it had none, or the image was lost."""
        return pin.find_pinned(self.images, record.desk + pin.STAGE)

    def forget(self, desk: str) -> None:
        """Remove a desk's record and its saved state. A missing one is no error."""
        if self.has(desk):
            self.get_path(desk).unlink(missing_ok=True)
            self.disk().drop(name_hibernated(desk))
            pin.unpin(self.images, desk)
            pin.unpin(self.images, desk + pin.STAGE)
        (self.shown / f"{desk}.json").unlink(missing_ok=True)

    def list_names(self) -> list[str]:
        with suppress(FileNotFoundError):
            names = [name.removesuffix(".json") for name in os.listdir(self.folder)]
            return [name for name in names if ID_SHAPE.fullmatch(name)]
        return []

    def tidy(self) -> None:
        """Remove desks past their deadline that no keeper has; list the others again after a restart of the machine."""
        for desk in self.list_names():
            with suppress(HotdeskError):
                record = self.find(desk)
                if record.until <= time.time() and not (self.desks / desk).exists():
                    self.forget(desk)
                elif not (self.shown / f"{desk}.json").exists():
                    self.show(record)


def describe_unlisted(settings: Config) -> list[dict[str, object]]:
    """Return the public facts of hibernated desks that `run` does not list, also of those with a damaged record."""
    found: list[dict[str, object]] = []
    for desk in list_unlisted(settings.run, settings.lib):
        try:
            facts = _describe(_read(settings.lib / FOLDER / f"{desk}.json"))
        except DeskGone:
            continue
        except BriefError:
            facts = {"id": desk, "state": "hibernated", "image": "unknown"}
        found.append({**facts, "kept": True})
    return found


def _read(path: Path) -> HibernatedDesk:
    desk = path.stem
    try:
        return HibernatedDesk(**json.loads(path.read_text()))
    except FileNotFoundError:
        raise DeskGone(f"desk {desk} is not hibernated on this machine; `hotdesk ps` lists all desks") from None
    except (ValueError, TypeError) as e:
        raise BriefError(f"{path} is damaged ({e}); `hotdesk burn {desk}` removes it") from None


def _describe(record: HibernatedDesk) -> dict[str, object]:
    spec = {**{name: getattr(Spec(), name) for name in ("image", "wall", "memory", "cpus")}, **record.spec}
    facts = {name: spec[name] for name in ("image", "wall", "memory", "cpus")}
    deadline = record.until - record.since
    return {"id": record.desk, "state": "hibernated", "opened": record.since, "deadline": deadline, **facts}


def check_same(record: HibernatedDesk, recorded: Spec, spec: Spec) -> None:
    """Refuse to resume a desk with another configuration than it had."""
    names = [name for name in COMPUTER if name != "env" and getattr(recorded, name) != getattr(spec, name)]
    if names:
        raise BriefError(
            f"desk {record.desk} cannot resume: it was hibernated with other values of {', '.join(names)}; resume it "
            "with the same values"
        )
