"""An exported image as one file: written atomically, and read from a stream, its signature first."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from hotdesk.desk.image.fetch import is_url, open_url, parse_file_url
from hotdesk.desk.image.image import Image, as_name, find
from hotdesk.desk.image.importer import import_payload, open_archive
from hotdesk.desk.image.payload import export
from hotdesk.desk.image.store import Progress, make_private
from hotdesk.desk.image.untar import ArchiveLimits
from hotdesk.drive.image_manifest import MAGIC, MAX_MANIFEST_BYTES, MAX_PAYLOAD_BYTES, ImageManifest, parse
from hotdesk.drive.signing import compute_fingerprint
from hotdesk.errors import BriefError, HostError, ImageError, make_printable

COPY = 1 << 20
_SIGNED_BY = re.compile(r"^signed by [0-9a-f]{32}: ")
"""The prefix of an imported image's source."""
Fields = Mapping[str, Any]


def is_signed_image(path: Path) -> bool:
    if path.is_dir():
        return False
    with open(open_archive(path), "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


# -- export ------------------------------------------------------------------------------------------------------------


def write_archive(store: Path, name: str, target: Path, version: str, sign: Callable[[Fields], bytes]) -> int:
    """Write an image as a signed archive; return its size.

    `version` is that of this hotdesk; `sign` returns the manifest's line for its fields.
    """
    image = find(store, name)
    with tempfile.TemporaryFile(dir=target.parent) as payload, _replacing(target) as out:
        budget = export(store, name, payload.fileno())
        payload.seek(0)
        sha256 = hashlib.file_digest(payload, "sha256").hexdigest()
        fields = {
            "arch": image.arch,
            "built": int(image.built),
            "entries": budget.entries,
            "name": image.name,
            "payload": {"sha256": sha256, "size": os.fstat(payload.fileno()).st_size},
            "recipe": image.built_from,
            "size": budget.size,
            "source": _SIGNED_BY.sub("", image.source).encode("ascii", "replace").decode()[:200],
            "version": version,
        }
        out.write(MAGIC + sign(fields))
        payload.seek(0)
        shutil.copyfileobj(payload, out, COPY)
        return out.tell()


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces a path at the end; after a failure it is removed."""
    handle, fresh = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "wb") as file:
            yield file
            os.fchmod(handle, 0o644)
            file.flush()
            os.fsync(handle)
        os.replace(fresh, target)
    except BaseException:
        os.unlink(fresh)
        raise


# -- import ------------------------------------------------------------------------------------------------------------


@contextmanager
def open_source(source: str) -> Iterator[IO[bytes]]:
    """Open an exported image: a path, a `file:` URL or an https URL."""
    path = parse_file_url(source) if is_url(source) else Path(source)
    if path is None:
        with open_url(source, len(MAGIC) + MAX_MANIFEST_BYTES + MAX_PAYLOAD_BYTES) as stream:
            yield stream
        return
    if path.is_dir():
        raise BriefError(
            f"{make_printable(str(path))!r} is a directory; name the file that `hotdesk image export` wrote."
        )
    with open(open_archive(path), "rb") as file:
        yield file


def read_manifest(stream: IO[bytes], signers: Mapping[str, str]) -> ImageManifest:
    """Read the manifest of an archive; raise `ImageError` if its signer is not trusted.

    `signers` has the trusted fingerprints.
    """
    if stream.read(len(MAGIC)) != MAGIC:
        raise ImageError("The file is not an image that `hotdesk image export` wrote.")
    manifest, public = parse(stream.readline(MAX_MANIFEST_BYTES + 1))
    signer = compute_fingerprint(public)
    if signer not in signers:
        raise ImageError(
            f"The image is signed by an unknown key, {signer}. If you trust it, pass --signer {signer} "
            "or add it to `signers` in [verify] of the settings."
        )
    if manifest.arch != os.uname().machine:
        raise ImageError(
            f"The image is for {manifest.arch} processors, but this machine has {os.uname().machine}. "
            f"Import one that was exported on a {os.uname().machine} machine."
        )
    return manifest


def import_archive(
    store: Path, stream: IO[bytes], manifest: ImageManifest, name: str | None, progress: Progress, floor: int = 0
) -> Image:
    """Import the payload that follows a manifest: copied to a temporary file, verified, and only then unpacked."""
    make_private(store)
    _check_room(store, manifest, floor)
    called = as_name(name or manifest.name)
    progress(f"{called}: reading {manifest.payload.size / 1e6:.0f} MB")
    with tempfile.TemporaryFile(dir=store) as spool:
        _spool_payload(stream, spool, manifest)
        progress(f"{called}: unpacking")
        image = describe(store, manifest, called)
        return import_payload(store, spool.fileno(), image, progress, _get_limits(manifest))


def describe(store: Path, manifest: ImageManifest, name: str) -> Image:
    """Make the image's record, without the fields that depend on its files."""
    digest = manifest.payload.sha256
    signer = hashlib.sha256(bytes.fromhex(manifest.public_key)).hexdigest()[:32]
    return Image(
        name=name,
        digest=digest,
        layers=(store / "layers" / digest,),
        python="",
        arch=manifest.arch,
        built=float(manifest.built),
        size=0,
        source=f"signed by {signer}: {manifest.source}"[:200],
        recipe=manifest.recipe,
    )


def _get_limits(manifest: ImageManifest) -> ArchiveLimits:
    return replace(ArchiveLimits(), entries=manifest.entries, size=manifest.size)


def _check_room(store: Path, manifest: ImageManifest, floor: int) -> None:
    needed = manifest.payload.size + manifest.size + floor
    if (free := shutil.disk_usage(store).free) < needed:
        raise HostError(
            f"The image needs {needed / 1e9:.1f} GB below {store}, but only {free / 1e9:.1f} GB are free. "
            "Remove images with `hotdesk image rm NAME`, or free space on that disk."
        )


def _spool_payload(stream: IO[bytes], spool: IO[bytes], manifest: ImageManifest) -> None:
    """Copy the payload into a temporary file; raise `ImageError` for another length or digest, or data after it."""
    sha256, remaining = hashlib.sha256(), manifest.payload.size
    while remaining and (data := stream.read(min(COPY, remaining))):
        sha256.update(data)
        spool.write(data)
        remaining -= len(data)
    if remaining:
        raise ImageError(f"The image file is incomplete: {remaining} bytes are missing. Copy it again.")
    if stream.read(1):
        raise ImageError("The image file is longer than its manifest says. Copy it again.")
    if sha256.hexdigest() != manifest.payload.sha256:
        raise ImageError("The image file is damaged: its payload does not have the signed digest. Copy it again.")
    spool.flush()
