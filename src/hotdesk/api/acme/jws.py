"""Signed messages in ACME's format: JWS with an account's P-256 key."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from hotdesk.errors import HostError

_COORDINATE_BYTES = 32


class AccountKey:
    __slots__ = ("_key", "jwk", "thumbprint")

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        numbers = key.public_key().public_numbers()
        x, y = (encode(each.to_bytes(_COORDINATE_BYTES, "big")) for each in (numbers.x, numbers.y))
        self.jwk = {"crv": "P-256", "kty": "EC", "x": x, "y": y}
        canonical = json.dumps(self.jwk, separators=(",", ":"), sort_keys=True).encode()
        self.thumbprint = encode(hashlib.sha256(canonical).digest())

    def sign(self, protected: Mapping[str, object], payload: object) -> bytes:
        """Sign a message; `None` is the empty payload of a POST-as-GET."""
        header = encode(json.dumps({"alg": "ES256", **protected}).encode())
        body = encode(json.dumps(payload).encode()) if payload is not None else ""
        r, s = decode_dss_signature(self._key.sign(f"{header}.{body}".encode(), ec.ECDSA(SHA256())))
        signature = b"".join(each.to_bytes(_COORDINATE_BYTES, "big") for each in (r, s))
        return json.dumps({"protected": header, "payload": body, "signature": encode(signature)}).encode()


def new_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def load_key(pem: bytes, path: Path | str = "account.key") -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise HostError(
            f"the key of the ACME account in {path} is damaged; delete the file and restart the server, which then "
            "creates a new account"
        )
    return key


def encode(data: bytes) -> str:
    """Encode bytes as base64url without padding, as JOSE does."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
