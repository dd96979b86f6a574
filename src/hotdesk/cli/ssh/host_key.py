"""The host key of this user's SSH servers, and the known_hosts file with it.

The client starts the server itself, so the key proves nothing to it. It only avoids a prompt that people would learn to
confirm without reading.
"""

from __future__ import annotations

import os
import stat
from binascii import b2a_base64

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotdesk.errors import HostError

ALIAS = "hotdesk"
"""Name of the key in known_hosts, and `HostKeyAlias` of the client."""
KEY_BYTES = 32


class KeyFiles:
    """Paths of the key file, and of the known_hosts file with its public key."""

    def __init__(self) -> None:
        home = os.environ.get("HOTDESK_HOME")
        if os.geteuid() != 0:
            data = os.environ.get("XDG_DATA_HOME") or f"{os.environ.get('HOME', '/')}/.local/share"
            self.folder, self.public = f"{data}/hotdesk/ssh", f"{data}/hotdesk/known_hosts"
        elif home:
            base = os.path.abspath(home)
            self.folder, self.public = f"{base}/lib/ssh", f"{base}/run/known_hosts"
        else:
            self.folder, self.public = "/var/lib/hotdesk/ssh", "/run/hotdesk/known_hosts"
        self.private = f"{self.folder}/host_key"


class HostKey:
    def __init__(self, seed: bytes) -> None:
        self.private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self.private.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self.private.sign(data)

    def format_known_host(self) -> bytes:
        blob = b"\0\0\0\x0bssh-ed25519" + len(self.public).to_bytes(4, "big") + self.public
        return f"{ALIAS} ssh-ed25519 ".encode() + b2a_base64(blob)


def load_host_key() -> HostKey:
    files = KeyFiles()
    seed = _read(files.private)
    if seed is None:
        _make_folder(files.folder)
        _write(files.private, os.urandom(KEY_BYTES), 0o600)
        seed = _read(files.private)
    if seed is None or len(seed) != KEY_BYTES:
        raise HostError(f"{files.private} is not a valid SSH host key; remove it, and a new one is created")
    key = HostKey(seed)
    line = key.format_known_host()
    try:
        with open(files.public, "rb") as file:
            is_known = file.read(1 << 12) == line
    except OSError:
        is_known = False
    if not is_known:
        _make_folder(os.path.dirname(files.public), 0o711)
        _write(files.public, line, 0o644, replaces=True)
    return key


def _read(path: str) -> bytes | None:
    """Read a file that only this user can access; return `None` if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise HostError(f"{path} cannot be read: {e.strerror}") from e
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise HostError(
                f"the SSH host key {path} is not a regular file that only this user can access; remove it, and a new "
                "one is created"
            )
        return os.read(fd, KEY_BYTES + 1)
    finally:
        os.close(fd)


def _make_folder(folder: str, mode: int = 0o700) -> None:
    try:
        os.makedirs(folder, mode=mode, exist_ok=True)
    except OSError as e:
        raise HostError(f"cannot create the folder {folder}: {e.strerror}") from e


def _write(path: str, data: bytes, mode: int, *, replaces: bool = False) -> None:
    """Write a file atomically; an existing file is kept, unless `replaces` is set."""
    fresh = f"{path}.{os.urandom(8).hex()}"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            os.fchmod(fd, mode)
            os.write(fd, data)
        finally:
            os.close(fd)
        try:
            if replaces:
                os.rename(fresh, path)
                return
            os.link(fresh, path)
        except FileExistsError:
            pass  # another process was first: its key is used
        finally:
            if os.path.lexists(fresh):
                os.unlink(fresh)
    except OSError as e:
        raise HostError(f"{path} cannot be written: {e.strerror}") from e
