"""Secrets by name in one file, each encrypted and bound to its name, version, kind and public fields."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, HostError
from hotdesk.linux import private_files
from hotdesk.vault import root
from hotdesk.vault.kinds import Public, Secret, check_name, check_public, check_value, get_kind, load_public
from hotdesk.vault.root import RootKeySource, Source, Unlock, refuse_passphrase

FILE = "vault.json"
LOCK = "vault.lock"
FORMAT = 1
NONCE = 12
_DAMAGED = "was changed without the vault's key; restore it from a backup"


@dataclass(frozen=True, slots=True)
class VaultEntry:
    """The public part of a secret."""

    name: str
    public: Public
    version: int
    created: float
    changed: float

    @property
    def kind(self) -> str:
        return get_kind(self.public)


@dataclass(frozen=True, slots=True)
class SealedEntry:
    """An entry and its encrypted value."""

    entry: VaultEntry
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Contents:
    """The parsed contents of the vault's file."""

    id: str
    root: RootKeySource
    key: bytes
    """The data key, encrypted with the root key."""
    entries: Mapping[str, SealedEntry] = field(default_factory=dict)


class Vault:
    """The secrets of one folder, unlocked. The file is read at each use: another process may have changed it."""

    def __init__(self, folder: Path, root_key: Secret) -> None:
        contents = load(folder)
        self.folder, self.id = folder, contents.id
        try:
            self._key = Secret(open_sealed(root_key, contents.key, _make_key_aad(contents.id, contents.root)))
        except InvalidTag:
            if contents.root.source == "passphrase":
                raise BriefError(f"the passphrase is wrong for the vault {folder / FILE}; try again") from None
            raise HostError(f"the root key does not belong to {folder / FILE}, or the file {_DAMAGED}") from None

    @classmethod
    def make(
        cls, folder: Path, source: Source = "file", unlock: Unlock = refuse_passphrase, owner: int | None = None
    ) -> Vault:
        """Create an empty vault. If the folder is missing, it is created for `owner`."""
        private_files.make_folder(folder, owner)
        with private_files.hold_lock(folder, LOCK):
            if private_files.read(folder, FILE) is not None:
                raise BriefError(f"a vault exists already at {folder / FILE}; use it, or move it away first")
            described, key = root.make(folder, source, unlock)
            name = secrets.token_hex(16)
            sealed = seal(key, secrets.token_bytes(root.SIZE), _make_key_aad(name, described))
            save(folder, Contents(name, described, sealed))
        return cls(folder, key)

    @classmethod
    def open(cls, folder: Path, unlock: Unlock = refuse_passphrase) -> Vault:
        """Unlock a vault with its root key; raise `BriefError` for a wrong passphrase."""
        return cls(folder, root.find(folder, load(folder).root, unlock))

    def read_entry(self, name: str) -> VaultEntry:
        """Return a secret's public part, authenticated by decrypting its value."""
        return self._unseal(name)[0]

    def reveal(self, name: str) -> Secret:
        return self._unseal(name)[1]

    def take(self, name: str) -> tuple[VaultEntry, Secret]:
        return self._unseal(name)

    def put(self, name: str, public: Public, value: bytes, *, loopback: bool = False) -> VaultEntry:
        """Store a secret. An existing secret of that name is replaced, and its version increased."""
        check_name(name)
        check_public(public, loopback=loopback)
        value = check_value(public, value)
        with self._changing() as entries:
            return self._seal(entries, name, public, value)

    def rotate(self, name: str, value: bytes) -> VaultEntry:
        """Set a secret's new value and increase its version; everything else stays."""
        public = self.read_entry(name).public
        value = check_value(public, value)
        with self._changing() as entries:
            if name not in entries or entries[name].entry.public != public:
                raise BriefError(f"secret {name!r} was changed by another process meanwhile; repeat the command")
            return self._seal(entries, name, public, value)

    def remove(self, name: str) -> None:
        with self._changing() as entries:
            if entries.pop(name, None) is None:
                raise _make_missing_error(name)

    def rotate_root(self, source: Source, unlock: Unlock = refuse_passphrase) -> None:
        """Replace the root key.

        The new key is stored first and the old one deleted last, so that a crash in between leaves a vault that opens.
        """
        with private_files.hold_lock(self.folder, LOCK):
            before = self._load()
            described, key = root.make(self.folder, source, unlock)
            sealed = seal(key, self._key.get_bytes(), _make_key_aad(self.id, described))
            save(self.folder, Contents(self.id, described, sealed, before.entries))
            root.keep_only(self.folder, described, before.root)

    def _load(self) -> Contents:
        contents = load(self.folder)
        if contents.id != self.id:
            raise HostError(f"{self.folder / FILE} was replaced by another vault; restart the process that uses it")
        return contents

    def _unseal(self, name: str) -> tuple[VaultEntry, Secret]:
        stored = self._load().entries.get(name)
        if stored is None:
            raise _make_missing_error(name)
        try:
            return stored.entry, Secret(open_sealed(self._key, stored.sealed, _make_entry_aad(self.id, stored.entry)))
        except InvalidTag:
            raise HostError(f"secret {name!r} {_DAMAGED}") from None

    @contextmanager
    def _changing(self) -> Iterator[dict[str, SealedEntry]]:
        with private_files.hold_lock(self.folder, LOCK):
            contents = self._load()
            entries = dict(contents.entries)
            yield entries
            save(self.folder, Contents(contents.id, contents.root, contents.key, entries))

    def _seal(self, entries: dict[str, SealedEntry], name: str, public: Public, value: bytes) -> VaultEntry:
        now = round(time.time(), 3)
        old = entries[name].entry if name in entries else None
        entry = VaultEntry(name, public, old.version + 1 if old else 1, old.created if old else now, now)
        entries[name] = SealedEntry(entry, seal(self._key, value, _make_entry_aad(self.id, entry)))
        return entry


def ls(folder: Path) -> list[VaultEntry]:
    """List a vault's entries without its key, as its file states them: nothing is authenticated."""
    if not folder.exists() or private_files.read(folder, FILE) is None:
        return []
    return [stored.entry for _, stored in sorted(load(folder).entries.items())]


def read_source(folder: Path) -> Source:
    return load(folder).root.source


def exists(folder: Path) -> bool:
    return folder.exists() and private_files.read(folder, FILE) is not None


def _make_missing_error(name: str) -> BriefError:
    return BriefError(f"secret {name[:80]!r} not found in the vault; `hotdesk vault ls` lists the secrets")


def _make_key_aad(vault: str, described: RootKeySource) -> bytes:
    return encode_canonical(["hotdesk-vault key", FORMAT, vault, asdict(described)])


def _make_entry_aad(vault: str, entry: VaultEntry) -> bytes:
    """Return the associated data of a value: if any of it changes, the value no longer decrypts."""
    fields = (entry.name, entry.version, entry.kind, entry.created, entry.changed, asdict(entry.public))
    return encode_canonical(["hotdesk-vault entry", FORMAT, vault, *fields])


def encode_canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def seal(key: Secret, value: bytes, bound: bytes) -> bytes:
    nonce = secrets.token_bytes(NONCE)
    return nonce + AESGCM(key.get_bytes()).encrypt(nonce, value, bound)


def open_sealed(key: Secret, sealed: bytes, bound: bytes) -> bytes:
    """Decrypt a value; raise `InvalidTag` if it or its associated data was changed."""
    if len(sealed) < NONCE + 16:
        raise InvalidTag
    return AESGCM(key.get_bytes()).decrypt(sealed[:NONCE], sealed[NONCE:], bound)


def save(folder: Path, contents: Contents) -> None:
    data = {
        "format": "hotdesk-vault",
        "version": FORMAT,
        "id": contents.id,
        "root": asdict(contents.root),
        "key": encode(contents.key),
        "entries": {name: tell(stored) for name, stored in sorted(contents.entries.items())},
    }
    private_files.write(folder, FILE, json.dumps(data, indent=1).encode() + b"\n")


def tell(stored: SealedEntry) -> dict[str, object]:
    entry = stored.entry
    return {
        "kind": entry.kind,
        "version": entry.version,
        "created": entry.created,
        "changed": entry.changed,
        "public": asdict(entry.public),
        "sealed": encode(stored.sealed),
    }


def load(folder: Path) -> Contents:
    data = private_files.read(folder, FILE)
    if data is None:
        raise BriefError(f"there is no vault at {folder}; create one with `hotdesk vault init`")
    try:
        content = json.loads(data)
        if (content["format"], content["version"]) != ("hotdesk-vault", FORMAT):
            raise HostError(
                f"{folder / FILE} has format version {content['version']!r}, but this hotdesk reads only {FORMAT}; "
                "use the version of hotdesk that wrote it"
            )
        entries = {name: _load_entry(name, each) for name, each in content["entries"].items()}
        return Contents(str(content["id"]), root.load_root(content["root"]), decode(content["key"]), entries)
    except (ValueError, KeyError, TypeError, AttributeError, BriefError, RecursionError) as e:
        raise HostError(f"{folder / FILE} is damaged ({type(e).__name__}); restore it from a backup") from e


def _load_entry(name: str, data: dict[str, object]) -> SealedEntry:
    version, created, changed = data["version"], data["created"], data["changed"]
    if type(version) is not int or type(created) is not float or type(changed) is not float:
        raise ValueError(name)
    entry = VaultEntry(check_name(name), load_public(data["kind"], data["public"]), version, created, changed)
    return SealedEntry(entry, decode(data["sealed"]))


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decode(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("not base64")
    return base64.b64decode(text, validate=True)
