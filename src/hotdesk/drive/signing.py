"""The key that signs journals."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from hotdesk.errors import BriefError, HostError
from hotdesk.linux import private_files

KEY, PUBLIC = "signing.key", "signing.pub"


class Signer:
    """Signs messages; does not expose its key."""

    __slots__ = ("_key", "public")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def load_signer(folder: Path) -> Signer:
    """Return the folder's signing key; create it if there is none."""
    pem = private_files.read(folder, KEY)
    if pem is None:
        private_files.write_first(folder, KEY, new_key())
        pem = private_files.read(folder, KEY)
    try:
        key = load_pem_private_key(pem or b"", None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise HostError(f"{folder / KEY} is not an Ed25519 key; restore it from a backup")
    publish(folder, key.public_key())
    return Signer(key)


def new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def publish(folder: Path, public: Ed25519PublicKey) -> None:
    """Write the public key beside the private one; raise `HostError` if another one is there."""
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private_files.write_first(folder, PUBLIC, pem, 0o644)
    if private_files.read(folder, PUBLIC, public=True) != pem:
        raise HostError(f"{folder / PUBLIC} is not the public key of {KEY}; move it away, and hotdesk writes it again")


def load_public(path: Path) -> Ed25519PublicKey:
    try:
        return _parse_public(path.read_bytes(), path)
    except OSError as e:
        raise BriefError(f"the public key {path} cannot be read: {e.strerror}") from e


def load_own_public(folder: Path) -> Ed25519PublicKey:
    pem = private_files.read(folder, PUBLIC, public=True)
    if pem is None:
        raise BriefError(f"the public key {folder / PUBLIC} does not exist; it is created when the first job runs")
    return _parse_public(pem, folder / PUBLIC)


def _parse_public(pem: bytes, path: Path) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise BriefError(f"{path} is not an Ed25519 public key in PEM; `hotdesk key show --pem` prints one")
    return key


def compute_fingerprint(public: Ed25519PublicKey) -> str:
    return hashlib.sha256(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:32]


def is_signed(public: Ed25519PublicKey, message: bytes, signature: bytes) -> bool:
    try:
        public.verify(signature, message)
    except InvalidSignature:
        return False
    return True
