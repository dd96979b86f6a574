"""Checkpoints: encrypted copies of a job's workspace on disk, sealed in pieces. The tar archive is never interpreted
here.

jobs/JOB/checkpoint-key         32 random bytes, deleted when the job ends
jobs/JOB/checkpoints/SHA256     one workspace
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hotdesk.config import GIB
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import DeskError, HostError
from hotdesk.linux import private_files

KEY = "checkpoint-key"
FOLDER = "checkpoints"
PIECE_BYTES = 1 << 20
MAX_BYTES = 16 * GIB
_TAR_TIMEOUT_S = 600.0
_TAR = "/usr/bin/tar"
_LEFT_OUT = (".config/browser", ".cache")
"""Paths that are not saved: the browser's profile and caches."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A workspace that is saved on disk."""

    sha256: str
    size: int


class Checkpoints:
    """The checkpoints of one job."""

    def __init__(self, folder: Path, largest: int = MAX_BYTES) -> None:
        self.folder = folder / FOLDER
        self.largest = largest
        private_files.make_folder(self.folder)
        if not (folder / KEY).exists():
            private_files.write(folder, KEY, secrets.token_bytes(32), 0o600)
        self.key = folder / KEY
        self.cipher = AESGCM(self.key.read_bytes())

    async def save(self, desk: Desk) -> Saved:
        """Save a desk's home folder; it is on disk when this returns. A paused desk is resumed first."""
        await desk.resume()
        partial = self.folder / f".{secrets.token_hex(8)}"
        whole, size = hashlib.sha256(), 0
        try:
            with private_files.translate_errors(partial), os.fdopen(_create_private_file(partial), "wb") as file:
                async for sealed in self.seal_stream(archive(desk, self.largest)):
                    whole.update(sealed)
                    size += len(sealed)
                    file.write(sealed)
                file.flush()
                await anyio.to_thread.run_sync(os.fsync, file.fileno())
            os.rename(partial, self.folder / whole.hexdigest())
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return Saved(whole.hexdigest(), size)

    async def restore(self, desk: Desk, sha256: str) -> None:
        process = await desk.start([_TAR, "-xpf", "-", "-C", desk.home], timeout=_TAR_TIMEOUT_S)
        done = None
        try:
            with private_files.translate_errors(self.folder / sha256), (self.folder / sha256).open("rb") as file:
                whole = hashlib.sha256()

                def read(size: int) -> bytes:
                    whole.update(data := file.read(size))
                    return data

                for piece in self.unseal_stream(read, sha256):
                    await process.send(piece)
                if whole.hexdigest() != sha256 or file.read(1):
                    raise HostError(
                        f"the saved state {sha256[:12]}… of the job does not match its recorded digest; start a new job"
                    )
            await process.close_stdin()
            done = await process.wait()
        finally:
            if done is None:
                await process.kill()
        if not done.ok:
            why = f"tar failed (exit code {done.exit_code}), usually because the disk is full"
            raise DeskError(
                f"the saved home folder of the job could not be restored into desk {desk.id}: {why}; check that "
                "`size.disk` in the brief is large enough"
            )

    def forget_others(self, *names: str) -> None:
        for path in self.folder.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)

    def destroy(self) -> None:
        """Delete the key, then the checkpoints. A second call does nothing."""
        for half in (self.key, *self.key.parent.glob(f".{KEY}.*")):  # partial key files of a process that was killed
            half.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            self.forget_others()
        with suppress(OSError):
            self.folder.rmdir()

    async def seal_stream(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Seal a stream in pieces. The nonces make a missing, reordered or truncated piece detectable."""
        prefix, number, buffer = os.urandom(7), 0, b""
        yield prefix
        async for piece in pieces:
            buffer += piece
            while len(buffer) > PIECE_BYTES:
                yield self.seal_piece(prefix, number, buffer[:PIECE_BYTES], last=False)
                buffer, number = buffer[PIECE_BYTES:], number + 1
        yield self.seal_piece(prefix, number, buffer, last=True)

    def seal_piece(self, prefix: bytes, number: int, data: bytes, *, last: bool) -> bytes:
        sealed = self.cipher.encrypt(_build_nonce(prefix, number, last), data, None)
        return len(sealed).to_bytes(4, "big") + bytes([last]) + sealed

    def unseal_stream(self, read: Callable[[int], bytes], name: str) -> Iterator[bytes]:
        """Yield the decrypted pieces of a sealed stream; raise `HostError` if it is incomplete or was changed."""
        prefix, number, last = read(7), 0, False
        while not last:
            head = read(5)
            if len(head) < 5:
                raise HostError(f"the saved state {name[:12]}… of the job is incomplete; start a new job")
            last = bool(head[4])
            try:
                yield self.cipher.decrypt(
                    _build_nonce(prefix, number, last), read(int.from_bytes(head[:4], "big")), None
                )
            except (InvalidTag, ValueError) as e:
                raise HostError(f"the saved state {name[:12]}… of the job was changed; start a new job") from e
            number += 1


def _create_private_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _build_nonce(prefix: bytes, number: int, last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + bytes([last])


async def archive(desk: Desk, largest: int) -> AsyncIterator[bytes]:
    """Yield a tar archive of a desk's home folder. The desk's own tar writes it; the bytes are not interpreted."""
    left_out = [f"--exclude=./{path}" for path in _LEFT_OUT]
    process = await desk.start([_TAR, *left_out, "-cf", "-", "-C", desk.home, "."], timeout=_TAR_TIMEOUT_S)
    size = 0
    async for stream, data in process.output():
        if stream == "stdout":
            size += len(data)
            if size > largest:
                await process.kill()
                limit = f"{largest / GIB:g} GiB" if largest >= GIB else f"{largest:,} bytes"
                raise DeskError(
                    f"the state of desk {desk.id} could not be saved for resuming the job: its home folder is larger "
                    f"than {limit}; delete large files there, or move them to .cache, which is not saved"
                )
            yield data
    done = await process.wait()
    if done.exit_code not in (0, 1):  # 1: a file changed while tar read it
        raise DeskError(
            f"the home folder of desk {desk.id} could not be saved for resuming the job: tar failed (exit code "
            f"{done.exit_code}), usually because it cannot read a file there; make every file readable, or move it to "
            ".cache, which is not saved"
        )
