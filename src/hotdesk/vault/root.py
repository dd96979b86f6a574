"""The root key, which encrypts the data key: from a file, a passphrase or the system's keyring."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, HostError
from hotdesk.linux import private_files
from hotdesk.vault.kinds import Secret

Source: TypeAlias = Literal["file", "passphrase", "keyring"]
Unlock: TypeAlias = Callable[[], bytes]
"""Returns the passphrase. Called only if the root key is derived from one."""
SIZE = 32
FILE = "root.key"
_SERVICE = "hotdesk-vault"
_MIN_PASSPHRASE_BYTES = 12
"""Minimum bytes of a new passphrase."""
ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class RootKeySource:
    """The source of a root key. It is stored beside the data that the key seals."""

    source: Source
    id: str
    """Distinguishes the keys while one replaces another and both exist."""
    salt: str = ""
    memory: int = 0
    """Cost of Argon2id: memory in KiB, and the numbers of passes and lanes."""
    passes: int = 0
    lanes: int = 0


def load_root(data: object) -> RootKeySource:
    """Parse a stored description strictly, with limits on the cost of the key derivation."""
    expected = {name: type(value) for name, value in asdict(RootKeySource("file", "")).items()}
    if not isinstance(data, dict) or {name: type(value) for name, value in data.items()} != expected:
        raise ValueError("the root key's description is incomplete")
    root = RootKeySource(**data)
    if root.source not in get_args(Source) or not ID.fullmatch(root.id):
        raise ValueError("the source or id of the root key is invalid")
    if root.memory > 1 << 20 or root.passes > 16 or root.lanes > 16:
        raise ValueError("the Argon2id cost of the root key exceeds 1 GiB of memory, 16 passes or 16 lanes")
    return root


def refuse_passphrase() -> bytes:
    raise BriefError(
        "the vault is locked with a passphrase; set HOTDESK_VAULT_PASSPHRASE_FILE to a file that contains it"
    )


def make(folder: Path, source: Source, unlock: Unlock = refuse_passphrase) -> tuple[RootKeySource, Secret]:
    root = RootKeySource(source, secrets.token_hex(8))
    if source == "passphrase":
        return _make_from_passphrase(root, unlock())
    key = secrets.token_bytes(SIZE)
    text = base64.b64encode(key).decode()
    if source == "file":
        before = (private_files.read(folder, FILE) or b"").decode()
        private_files.write(folder, FILE, f"{before}{root.id} {text}\n".encode())
    else:
        _ask_keyring("set_password", _SERVICE, root.id, text)
    return root, Secret(key)


def _make_from_passphrase(root: RootKeySource, passphrase: bytes) -> tuple[RootKeySource, Secret]:
    if len(passphrase) < _MIN_PASSPHRASE_BYTES:
        raise BriefError(f"the passphrase has fewer than {_MIN_PASSPHRASE_BYTES} bytes; use several words")
    salt = base64.b64encode(secrets.token_bytes(16)).decode()
    root = replace(root, salt=salt, memory=64 << 10, passes=3, lanes=4)
    return root, _derive(root, passphrase)


def _derive(root: RootKeySource, passphrase: bytes) -> Secret:
    """Derive a key from a passphrase, slowly on purpose."""
    try:
        salt = base64.b64decode(root.salt, validate=True)
        kdf = Argon2id(salt=salt, length=SIZE, iterations=root.passes, lanes=root.lanes, memory_cost=root.memory)
        return Secret(kdf.derive(passphrase))
    except ValueError as e:
        raise HostError(f"the vault's passphrase parameters are damaged: {e}; restore the vault from a backup") from e


def find(folder: Path, root: RootKeySource, unlock: Unlock = refuse_passphrase) -> Secret:
    match root.source:
        case "passphrase":
            return _derive(root, unlock())
        case "file":
            return decode(_read_file_keys(folder).get(root.id), f"{folder / FILE} has no root key for this vault")
        case "keyring":
            return decode(_ask_keyring("get_password", _SERVICE, root.id), "the keyring has no root key for this vault")


def _read_file_keys(folder: Path) -> dict[str, str]:
    lines = (private_files.read(folder, FILE) or b"").decode(errors="replace").splitlines()
    return {name: text for name, _, text in (line.partition(" ") for line in lines)}


def decode(text: str | None, otherwise: str) -> Secret:
    try:
        key = base64.b64decode(text or "", validate=True)
    except ValueError:
        key = b""
    if len(key) != SIZE:
        raise HostError(f"{otherwise}; restore it from a backup")
    return Secret(key)


def keep_only(folder: Path, current: RootKeySource, old: RootKeySource) -> None:
    if current.source == "file":
        private_files.write(folder, FILE, f"{current.id} {_read_file_keys(folder)[current.id]}\n".encode())
    else:
        private_files.remove(folder, FILE)
    if old.source == "keyring":
        _ask_keyring("delete_password", _SERVICE, old.id)


def _ask_keyring(act: str, *arguments: str) -> Any:
    try:
        ring = import_module("keyring")
        return getattr(ring, act)(*arguments)
    except ImportError as e:
        raise HostError("no keyring is available: run `pip install keyring`, or keep the root key in a file") from e
    except Exception as e:  # keyring backends raise exceptions of any class
        raise HostError(f"the keyring failed ({type(e).__name__}); unlock it, or keep the root key in a file") from e
