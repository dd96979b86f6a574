"""Archives for COPY steps: sent to a link that works once, for one tenant and one digest; never parsed on the host."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import field
from pathlib import Path

import anyio
from starlette.requests import Request

from hotdesk.api.e2b.control.snapshots import get_folder
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.tenants import Tenant
from hotdesk.config import GIB, MIB
from hotdesk.dataclass import dataclass
from hotdesk.linux import private_files

FOLDER = "template-files"
MAX_ARCHIVE_BYTES = 2 * GIB
MAX_TENANT_BYTES = 8 * GIB
"""Bytes of all archives of one tenant; the oldest are removed for new ones."""
LINK_LIFETIME_S = 3600.0
_MAX_LINKS = 10_000
"""Unused upload links of all tenants."""
_LOOK = 8 * MIB
"""Bytes after which the free disk space is checked again."""
_SILENCE_S = 60.0
"""Seconds to wait for the next piece of an archive."""
_CHUNK = 256 << 10


@dataclass(frozen=True, slots=True)
class UploadLink:
    """Permission to send one archive."""

    tenant: Tenant
    digest: str
    until: float


@dataclass(slots=True)
class TemplateFiles:
    """The archives of all tenants, and the unused upload links."""

    links: dict[str, UploadLink] = field(default_factory=dict)
    reserved: dict[Path, int] = field(default_factory=dict)
    """Bytes reserved for each unfinished archive: its announced length, or the maximum."""
    reserving: anyio.Lock = field(default_factory=anyio.Lock)

    def open_link(self, tenant: Tenant, digest: str) -> str:
        """Create a link for one archive; return its token."""
        now = time.time()
        if len(self.links) >= _MAX_LINKS:
            self.links = {word: each for word, each in self.links.items() if each.until > now}
            if len(self.links) >= _MAX_LINKS:
                raise E2bError(429, f"{_MAX_LINKS} upload links are waiting for a file, which is the limit. Try later.")
        word = secrets.token_urlsafe(32)
        self.links[word] = UploadLink(tenant, digest, now + LINK_LIFETIME_S)
        return word

    def take_link(self, word: str, digest: str) -> UploadLink:
        link = self.links.pop(word, None)
        if link is None or link.digest != digest or link.until <= time.time():
            raise E2bError(401, "This upload link is not valid, or was used already. Request a new link.")
        return link

    async def save(self, link: UploadLink, request: Request) -> None:
        """Store an archive; an interrupted upload leaves nothing."""
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > MAX_ARCHIVE_BYTES:
            raise _make_too_large_error()
        place = prepare_folder(link.tenant)
        fresh = place / f".{secrets.token_hex(8)}"
        await self.reserve(fresh, int(length[:20]) if length.isdecimal() else MAX_ARCHIVE_BYTES)
        try:
            await self.receive(request, fresh, link.tenant.settings.disk_floor)
            async with self.reserving:  # so that it is counted once, as unfinished or as an archive
                os.rename(fresh, place / link.digest)
                del self.reserved[fresh]
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.Path(fresh).unlink(missing_ok=True)
            self.reserved.pop(fresh, None)

    async def reserve(self, fresh: Path, size: int) -> None:
        """Reserve space of a tenant for one archive, if its unfinished ones leave so much."""
        async with self.reserving:
            others = {path: bytes_due for path, bytes_due in self.reserved.items() if path.parent == fresh.parent}
            due = sum(others.values()) + size
            if due > MAX_TENANT_BYTES:
                raise E2bError(
                    429,
                    f"Your other uploads use the limit of {MAX_TENANT_BYTES >> 20} MiB (one without a Content-Length "
                    f"counts {MAX_ARCHIVE_BYTES >> 20} MiB). Send this archive when one of them has ended.",
                )
            await anyio.to_thread.run_sync(make_room, fresh.parent, due, frozenset(others))
            self.reserved[fresh] = size

    async def receive(self, request: Request, path: Path, floor: int) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        size, checked = 0, -_LOOK
        pieces = request.stream().__aiter__()
        async with await anyio.open_file(fd, "wb") as file:
            while True:
                with anyio.move_on_after(_SILENCE_S) as silence:
                    piece = await anext(pieces, None)
                if silence.cancelled_caught:
                    raise E2bError(408, f"No data was received for {_SILENCE_S:.0f} s. Send the archive again.")
                if piece is None:
                    break
                size += len(piece)
                if size > self.reserved[path]:
                    raise _make_too_large_error()
                if size - checked >= _LOOK:
                    checked = size
                    if shutil.disk_usage(path.parent).free < floor:
                        raise E2bError(507, "The disk of this server is nearly full. Try later, or ask its operator.")
                await file.write(piece)
        if not size:
            raise E2bError(400, "The archive is empty.")


def _make_too_large_error() -> E2bError:
    return E2bError(
        413,
        f"The archive exceeds the limit of {MAX_ARCHIVE_BYTES >> 20} MiB or its Content-Length. Exclude files with "
        ".dockerignore.",
    )


def prepare_folder(tenant: Tenant) -> Path:
    place = get_folder(tenant)
    private_files.make_folder(place)
    private_files.make_folder(place / FOLDER)
    return place / FOLDER


def find_archive(tenant: Tenant, digest: str) -> Path | None:
    """Return a tenant's archive and record its use; `None` if there is none."""
    path = prepare_folder(tenant) / digest
    try:
        os.utime(path, follow_symlinks=False)
    except OSError:
        return None
    return path if path.is_file() else None


def make_room(place: Path, size: int, unfinished: Collection[Path] = ()) -> None:
    """Remove the least recently used archives until new ones have room, and what an earlier server received in part."""
    found = []
    for path in place.iterdir():
        with suppress(FileNotFoundError):
            if not path.name.startswith("."):
                info = path.stat()
                found.append((info.st_mtime, info.st_size, path))
            elif path not in unfinished:
                path.unlink()
    total = sum(each[1] for each in found) + size
    for _, bytes_there, path in sorted(found):
        if total <= MAX_TENANT_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= bytes_there
