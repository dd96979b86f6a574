"""Workload tokens: a desk's identity, signed for one audience as a JWT-SVID.

There is one key for each state directory, ECDSA on P-256, because relying parties support ES256. Its public half is a
file that a server publishes; the private half never leaves this process.
"""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from hotdesk.brief.data import WorkloadToken
from hotdesk.errors import HostError
from hotdesk.linux import private_files

KEY, PUBLIC = "identity.key", "identity.pub"
_LIFETIME_S = 600
_COORDINATE_BYTES = 32


class IdentitySigner:
    """Signs tokens; does not expose its key."""

    __slots__ = ("_key", "key_id")

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self.key_id = _compute_key_id(key.public_key())

    def sign(self, token: WorkloadToken, desk: str, now: float) -> bytes:
        """Return a token that names the desk, for one audience, valid for ten minutes."""
        place = urlsplit(token.issuer)
        claims = {
            "iss": token.issuer,
            "sub": f"spiffe://{place.hostname}{place.path}/sandbox/{desk}",
            "aud": [token.audience],
            "iat": int(now),
            "nbf": int(now) - 30,
            "exp": int(now) + _LIFETIME_S,
            "jti": secrets.token_hex(16),
        }
        header = {"alg": "ES256", "typ": "JWT", "kid": self.key_id}
        message = b".".join(_encode(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
        r, s = decode_dss_signature(self._key.sign(message, ec.ECDSA(SHA256())))
        signature = b"".join(each.to_bytes(_COORDINATE_BYTES, "big") for each in (r, s))
        return message + b"." + _encode(signature)


def load_identity(folder: Path) -> IdentitySigner:
    """Return the folder's key for workload tokens; create it if there is none."""
    pem = private_files.read(folder, KEY)
    if pem is None:
        new = ec.generate_private_key(ec.SECP256R1())
        private_files.write_first(folder, KEY, new.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        pem = private_files.read(folder, KEY)
    try:
        key = load_pem_private_key(pem or b"", None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise HostError(f"{folder / KEY} is not a P-256 key; restore it from a backup")
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if private_files.read(folder, PUBLIC, public=True) != public:
        private_files.write(folder, PUBLIC, public, 0o644)
    return IdentitySigner(key)


def read_key_set(folder: Path) -> dict[str, object]:
    """Return the public key of a folder's workload tokens as a JSON Web Key Set, without keys if there is none."""
    pem = private_files.read(folder, PUBLIC, public=True) if folder.is_dir() else None
    if pem is None:
        return {"keys": []}
    key = load_pem_public_key(pem)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise HostError(f"{folder / PUBLIC} is not a P-256 key; remove it, and hotdesk writes it again")
    numbers = key.public_numbers()
    x, y = (_encode(each.to_bytes(_COORDINATE_BYTES, "big")).decode() for each in (numbers.x, numbers.y))
    entry = {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": _compute_key_id(key), "x": x, "y": y}
    return {"keys": [entry]}


def _compute_key_id(key: ec.EllipticCurvePublicKey) -> str:
    hashing = Hash(SHA256())
    hashing.update(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return _encode(hashing.finalize()[:16]).decode()


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
