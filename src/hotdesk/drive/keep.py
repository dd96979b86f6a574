"""Files that outlive their desk: bytes under their SHA-256, and a catalog of names with versions.

    drive/blobs/SHA256   the bytes, never changed; certificates, too
    drive/drive.db       names, versions, owners and origins

The bytes are on disk before one transaction adds them to the catalog. A process killed in between leaves a blob without
a name, which `sweep` removes.
"""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from hotdesk.brief.brief import MEMORY
from hotdesk.config import GIB
from hotdesk.drive import legacy
from hotdesk.drive.blobs import Blobs, ByteSource, Staged
from hotdesk.drive.catalog import Catalog, Origin, Version
from hotdesk.drive.certificate import LARGEST
from hotdesk.drive.identity import check_owner, check_readers, may_write
from hotdesk.drive.names import check_name, format_name, parse_reference
from hotdesk.errors import BriefError
from hotdesk.linux import private_files

QUOTA = 10 * GIB
"""Maximum bytes that one owner may store."""
Intent: TypeAlias = Callable[[Version], None]
"""Called just before a change is committed, to record its event. If it raises, the change is undone."""
INPUT = "drive:"
"""The prefix of a job's input that is a file in the drive."""


def tell_nobody(version: Version) -> None:
    """Do nothing."""


class Drive:
    """Stores files below one private folder."""

    def __init__(self, folder: Path, quota: int = QUOTA) -> None:
        private_files.make_folder(folder)
        self.folder, self.quota = folder, quota
        self.blobs = Blobs(folder / "blobs")
        self.catalog = Catalog(folder, self.blobs.folder)
        if (names := folder / legacy.FOLDER).is_dir():
            legacy.take_over(names, self.blobs, self.catalog)

    def keep(
        self,
        name: str,
        data: bytes | ByteSource,
        *,
        owner: str,
        job: str = "",
        brief: str = "",
        certificate: bytes = b"",
        readers: Iterable[str] | None = None,
        intent: Intent = tell_nobody,
    ) -> Version:
        """Store bytes as the next version of an owner's file, with its certificate; both are on disk on return.

        Raise `BriefError` beyond the owner's quota, without writing anything. A certificate's bytes do not count.
        """
        check_name(name)
        check_owner(owner)
        allowed = None if readers is None else check_readers(readers)
        limit = self.measure_room(owner, data)
        source = io.BytesIO(data) if isinstance(data, bytes) else data
        with self.blobs.stage(source, limit) as staged, self.proof(certificate) as proof, self.catalog.writing() as db:
            self.require_room(db, owner, staged.sha256, staged.size)
            self.blobs.admit(staged)
            if proof is not None:
                self.blobs.admit(proof)
            origin = Origin(job, brief, "" if proof is None else proof.sha256)
            version = self.catalog.add(db, name, owner, staged, origin, allowed)
            intent(version)
        return version

    @contextmanager
    def proof(self, certificate: bytes) -> Iterator[Staged | None]:
        """Write a certificate to a temporary file for the length of a block; yield `None` if there is none."""
        if not certificate:
            yield None
            return
        with self.blobs.stage(io.BytesIO(certificate), LARGEST) as staged:
            yield staged

    def read_certificate(self, version: Version) -> bytes:
        """Return a version's certificate; raise `BriefError` if it has none."""
        if not version.certificate:
            why = "its brief required no check" if version.job else "it was stored by hand, not delivered by a job"
            raise BriefError(f"{format_name(version.name)}@{version.number} has no certificate: {why}")
        return b"".join(self.blobs.read(version.certificate, self.blobs.measure_size(version.certificate, LARGEST)))

    def find(self, name: str, number: int | None = None, *, who: str, owner: str = "") -> bytes:
        """Return the file stored under a name; raise `HostError` if its bytes were changed."""
        return b"".join(self.open_stream(name, number, who=who, owner=owner))

    def open_stream(self, name: str, number: int | None = None, *, who: str, owner: str = "") -> Iterator[bytes]:
        """Yield the file in pieces. A change is detected only after the last piece, so do not use any before."""
        version = self.get_version(name, number, who=who, owner=owner)
        return self.blobs.read(version.sha256, version.size)

    def get_version(self, name: str, number: int | None = None, *, who: str, owner: str = "") -> Version:
        return _select_version(self.list_history(name, who=who, owner=owner), number)

    def list_history(self, name: str, *, who: str, owner: str = "") -> list[Version]:
        """List a name's versions, oldest first; raise `BriefError` if it does not exist or `who` may not read it."""
        check_name(name)
        with self.catalog.reading() as db:
            return self.catalog.list_history(db, name, who, owner)

    def ls(self, prefix: str = "", *, who: str) -> list[Version]:
        with self.catalog.reading() as db:
            return self.catalog.list_newest(db, prefix, who)

    def get_version_path(self, name: str, number: int | None = None, *, who: str, owner: str = "") -> Path:
        return self.get_version(name, number, who=who, owner=owner).path

    def holds(self, sha256: str, *, who: str) -> bool:
        with self.catalog.reading() as db:
            return bool(self.catalog.of_blob(db, sha256, who))

    def remove(
        self, name: str, number: int | None = None, *, who: str, owner: str = "", intent: Intent = tell_nobody
    ) -> list[Version]:
        """Remove one version of a name, or all, and blobs without another reference; return the removed versions."""
        check_name(name)
        with self.catalog.writing() as db:
            found = self.catalog.list_history(db, name, who, owner)
            gone = found if number is None else [_select_version(found, number)]
            if not may_write(who, gone[0].owner):
                raise BriefError(
                    f"{format_name(name)} belongs to {gone[0].owner}; only its owner or the operator may remove it"
                )
            for version in gone:
                self.catalog.remove(db, version)
                intent(version)
        self.collect({sha256 for version in gone for sha256 in (version.sha256, version.certificate) if sha256})
        return gone

    def count_used_bytes(self, owner: str) -> int:
        with self.catalog.reading() as db:
            return self.catalog.count_used_bytes(db, owner)

    def sweep(self) -> int:
        """Remove unreferenced blobs and partial files; return the number of bytes removed."""
        return self.collect(self.blobs.list_blobs()) + self.blobs.sweep_halves()

    def collect(self, candidates: Iterable[str]) -> int:
        """Remove unreferenced blobs, holding the write lock so that none comes into use; return the bytes removed."""
        with self.catalog.writing() as db:
            proofs = self.catalog.list_certificates(db)
            unused = [each for each in candidates if each not in proofs and not self.catalog.is_referenced(db, each)]
            return sum(map(self.blobs.remove, unused))

    def measure_room(self, owner: str, data: bytes | ByteSource) -> int:
        """Return the maximum bytes to accept; raise `BriefError` if it is already clear that the data does not fit."""
        with self.catalog.reading() as db:
            if isinstance(data, bytes):
                self.require_room(db, owner, hashlib.sha256(data).hexdigest(), len(data))
                return len(data)
            if (size := _stat_size(data)) > self.quota:
                self.require_room(db, owner, "", size)
            room = self.quota - self.catalog.count_used_bytes(db, owner)
            return max(room, self.catalog.measure_largest(db, owner))  # a blob that the owner already has is free

    def require_room(self, db: sqlite3.Connection, owner: str, sha256: str, size: int) -> None:
        """Raise `BriefError` if bytes would exceed an owner's quota. A blob that the owner already has is free."""
        used = self.catalog.count_used_bytes(db, owner)
        if used + size > self.quota and not self.catalog.has(db, owner, sha256):
            raise BriefError(
                f"{owner} uses {used} of {self.quota} bytes of drive quota, so {size} more bytes do not fit; "
                "remove versions with `hotdesk drive rm NAME@VERSION`"
            )


def _select_version(found: list[Version], number: int | None) -> Version:
    """Return a version by number, or the newest one for `None`."""
    for version in reversed(found):
        if number in (None, version.number):
            return version
    raise BriefError(
        f"{format_name(found[0].name)} has no version {number}; `hotdesk drive history "
        f"{format_name(found[0].name)}` lists the versions"
    )


def read_input(drive: Drive, text: str, who: str) -> bytes:
    """Return the file of an input such as `drive:reports/june.xlsx@3`."""
    if not text.startswith(INPUT):
        raise BriefError(
            f"{format_name(text)!r} is not an input from the drive; write it like 'drive:reports/june.xlsx@3'"
        )
    name, number = parse_reference(text.removeprefix(INPUT))
    if name.partition("/")[0] == MEMORY:
        raise BriefError(
            f"{format_name(name)!r} was stored by a worker for later jobs (memory) and not reviewed by a person, so it "
            "cannot be used as an input or in a check; review the file, then store it under another name with "
            "`hotdesk drive put`"
        )
    return drive.find(name, number, who=who)


def _stat_size(source: ByteSource) -> int:
    """Return the size of a source, or 0 if it is unknown, as for a pipe."""
    fileno = getattr(source, "fileno", None)
    try:
        return 0 if fileno is None else os.fstat(fileno()).st_size
    except OSError:
        return 0
