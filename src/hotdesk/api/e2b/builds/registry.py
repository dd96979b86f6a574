"""Base images from registries that the operator lists: fetched in a desk through the door, imported as hostile.

The desk can only read, from that registry alone, and has no credential: the door attaches it. Its output is bounded
here, and unpacked by the program that unpacks every foreign image (`desk/image/importer.py`).
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import anyio

from hotdesk.api.e2b.builds.inside import StepError
from hotdesk.api.e2b.builds.plan import hash_key
from hotdesk.api.e2b.builds.uploads import prepare_folder
from hotdesk.api.e2b.network import NOWHERE
from hotdesk.brief.data import READ, Grant, Rule, Scope, SecretPlace
from hotdesk.brief.grants import check_grant
from hotdesk.brief.rules import check_rule
from hotdesk.config import GIB, MIB
from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import Image
from hotdesk.desk.seam import Process
from hotdesk.errors import BriefError, HotdeskError, make_printable

if TYPE_CHECKING:
    from hotdesk.api.e2b.builds.runner import TemplateBuildRun

_PROGRAM = files("hotdesk.api.e2b.builds").joinpath("pull_program.py").read_bytes()
_BEGIN = "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.read(8))))"
MAX_IMAGE_BYTES = 8 * GIB
_MACHINES = {"aarch64": "arm64", "x86_64": "amd64"}
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|sha256:[0-9a-f]{64}")
_FOUND = re.compile(rb'\{"digest": "(sha256:[0-9a-f]{64})"\}\n')
_HUB = "registry-1.docker.io"
_LOOK = 64 * MIB
_MAX_WORDS = 1000
_PULL_IMAGE = "base"
"""The image of the desk that fetches others."""


@dataclass(frozen=True, slots=True)
class RegistryImage:
    """An image of a registry that the operator lists."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    repository: str
    version: str
    """A tag, or a digest."""

    @property
    def address(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def find_registry(reference: str, registries: Sequence[str]) -> RegistryImage | None:
    """Return the image that a reference means at a listed registry; `None` if it means none."""
    first, slash, rest = reference.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, rest = _HUB, reference if slash else f"library/{reference}"
    if first in ("docker.io", "index.docker.io"):
        first, rest = _HUB, rest if "/" in rest else f"library/{rest}"
    repository, at, digest = rest.partition("@")
    repository, colon, tag = repository.partition(":")
    version = digest if at else tag if colon else "latest"
    if not _REPOSITORY.fullmatch(repository) or not _VERSION.fullmatch(version):
        return None
    for each in registries:
        listed = split_registry(each)
        if first in (f"{listed[1]}:{listed[2]}", listed[1]) and (":" in first or listed[2] in (80, 443)):
            return RegistryImage(*listed, repository, version)
    return None


def split_registry(text: str) -> tuple[Literal["http", "https"], str, int]:
    """Read a registry as an operator lists it: `registry.example.com`, or with scheme and port."""
    parts = urlsplit(text if "://" in text else f"https://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.username:
        raise ValueError("a registry must be written like registry.example.com or https://registry.example.com:5000")
    scheme: Literal["http", "https"] = "http" if parts.scheme == "http" else "https"
    return scheme, parts.hostname, parts.port or (80 if scheme == "http" else 443)


def build_scope(found: RegistryImage, credentials: dict[str, object] | None) -> Scope:
    """Return the scope of the fetching desk: it may read from its registry; the door attaches the password."""
    rule = check_rule(Rule(found.host, scheme=found.scheme, port=found.port, methods=READ))
    if credentials is None:
        return Scope((NOWHERE, rule), may_ask=False)
    match credentials:
        case {"type": "registry", "username": str(user), "password": str(password)}:
            pass
        case _:
            raise StepError(
                "base",
                "this server signs in to registries with a user name and a password only: "
                "from_image(…, username=…, password=…)",
            )
    if found.scheme != "https":
        raise StepError(
            "base",
            f"registry {found.host} does not use https, so the password was not sent; use a registry with https, or an "
            "image that needs no password",
        )
    value = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    place = (SecretPlace("header", "authorization"),)
    grant = check_grant(Grant("registry", found.host, port=found.port, places=place, foreign=True))
    return Scope((NOWHERE, rule), (grant,), may_ask=False, values={"registry": value.encode("latin-1")})


async def pull(run: TemplateBuildRun, found: RegistryImage) -> Image:
    """Return the image of a registry, pinned by its digest; it is fetched if it is not cached."""
    try:
        scope = build_scope(found, run.order.from_image_registry)
    except BriefError as e:
        raise StepError("base", f"registry {found.host} cannot be used: {e}") from None
    base = run.look_up(_PULL_IMAGE)
    if base is None:
        raise StepError(
            "base",
            f"this server has no image '{_PULL_IMAGE}', which it needs to fetch other images; the server's operator "
            "can build it with `hotdesk setup`",
        )
    async with run.open(base, "base", scope) as inside:
        process = await inside.desk.start([inside.python, "-I", "-S", "-c", _BEGIN], cwd="/")
        try:
            return await _converse(run, found, process)
        finally:
            with anyio.move_on_after(5, shield=True):
                await process.kill()


async def _converse(run: TemplateBuildRun, found: RegistryImage, process: Process) -> Image:
    """Ask the program in the desk for the digest; then, if that is not cached, for the image."""
    order = {
        "address": found.address, "repository": found.repository, "reference": found.version,
        "machine": _MACHINES.get(os.uname().machine, os.uname().machine), "limit": MAX_IMAGE_BYTES,
    }  # fmt: skip
    await process.send(f"{len(_PROGRAM):8d}".encode() + _PROGRAM + json.dumps(order).encode() + b"\n")
    output = PullOutput(process.output())
    digest = await output.find_digest()
    run.log.write(f"[base] {found.host}/{found.repository}@{digest}", step="base")
    key = hash_key("registry", found.address, found.repository, digest)
    if (picture := run.use_cached(key)) is not None:
        return picture
    await process.send(b"fetch\n")
    place = prepare_folder(run.store.tenant) / f".pull-{secrets.token_hex(8)}"
    try:
        await output.save(place, run.store.tenant.settings.disk_floor)
        if (await process.wait()).exit_code:
            raise output.make_step_error()
        return await run.import_archive(key, place)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.Path(place).unlink(missing_ok=True)


class PullOutput:
    """The output of the program in the desk: hostile, so bounded."""

    def __init__(self, pieces: AsyncIterator[tuple[str, bytes]]) -> None:
        self.pieces = pieces
        self.rest = b""
        self.words = b""
        """The end of its error output."""

    async def read_next(self) -> bytes | None:
        """Return the next bytes of its output; `None` at the end."""
        async for stream, data in self.pieces:
            if stream == "stdout":
                return data
            self.words = (self.words + data)[-_MAX_WORDS:]
        return None

    def make_step_error(self) -> StepError:
        words = (
            self.words.decode("utf-8", "replace").strip()
            or "the download program ended unexpectedly; start the build again"
        )
        return StepError("base", f"the image cannot be fetched: {make_printable(words)}")

    async def find_digest(self) -> str:
        line = b""
        while b"\n" not in line:
            piece = await self.read_next()
            if piece is None or len(line) > _MAX_WORDS:
                raise self.make_step_error()
            line += piece
        line, newline, self.rest = line.partition(b"\n")
        shape = _FOUND.fullmatch(line + newline)
        if shape is None:
            raise StepError(
                "base", "the image cannot be fetched: the download program reported no digest; start the build again"
            )
        return shape[1].decode()

    async def save(self, place: Path, floor: int) -> None:
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        size, checked = 0, -_LOOK
        piece: bytes | None = self.rest
        async with await anyio.open_file(fd, "wb") as file:
            while piece is not None:
                size += len(piece)
                if size > MAX_IMAGE_BYTES + GIB:
                    raise StepError(
                        "base", f"the registry sent more than {(MAX_IMAGE_BYTES >> 30) + 1} GiB, the limit of an image"
                    )
                if size - checked >= _LOOK:
                    checked = size
                    if shutil.disk_usage(place.parent).free < floor + _LOOK:
                        raise StepError(
                            "base", "the disk of this server is nearly full; try later, or ask its operator"
                        )
                await file.write(piece)
                piece = await self.read_next()


def describe_import(error: HotdeskError) -> StepError:
    return StepError("base", f"the image cannot be imported: {error}")
