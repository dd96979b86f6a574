"""Encrypts secrets of a vault for a node: from one keys process to another, so that no owner and no agent reads them.

A node's keys process makes an X25519 key at its start and signs the public half with the key that signs events there.
The node's vouching for that key is checked as for a wall (`node_proof.py`).
"""

from __future__ import annotations

import base64
import datetime
import json
import os
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from hotdesk.drive.signing import Signer, is_signed
from hotdesk.errors import BriefError
from hotdesk.keys.node_proof import check_vouching, explain_vouching

SEALED = "sealed values"
"""The name of the sealed values among those that an owner brings; no secret can have this name."""
_INFO = b"hotdesk-sealed-values 1"
_KEY_BYTES, _NONCE_BYTES = 32, 12


class SealingKey:
    """The sealing key of this keys process: only this process can open what is sealed for it."""

    __slots__ = ("_key", "public")

    def __init__(self) -> None:
        self._key = X25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, signer: Signer) -> dict[str, str]:
        """Return the public half, signed with the key that signs events here."""
        signature = signer.sign(_encode_statement(self.public))
        return {"sealing": base64.b64encode(self.public).decode(), "signed": base64.b64encode(signature).decode()}

    def open(self, sealed: bytes) -> dict[str, bytes]:
        """Decrypt values; raise `BriefError` if they were sealed for another process, or changed."""
        theirs, nonce = sealed[:_KEY_BYTES], sealed[_KEY_BYTES : _KEY_BYTES + _NONCE_BYTES]
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(theirs))
            cipher = AESGCM(_derive(shared, theirs, self.public))
            data = cipher.decrypt(nonce, sealed[_KEY_BYTES + _NONCE_BYTES :], _INFO)
        except (ValueError, InvalidTag):
            raise BriefError(
                "the secrets for the desk cannot be decrypted: they were encrypted before this node was restarted, or "
                "for another node; open the desk again"
            ) from None
        return {str(name): base64.b64decode(value) for name, value in json.loads(data).items()}


def seal_values(values: Mapping[str, bytes], statement: Mapping[str, object], authority: str) -> bytes:
    """Encrypt values for a node's keys; raise `BriefError` unless the cluster's authority vouches for the node."""
    texts = {name: statement.get(name) for name in ("key", "certificate", "signature", "sealing", "signed")}
    if not authority:
        raise BriefError(
            "secrets cannot be sent to a node: this process has no certificate of a cluster's authority to verify the "
            "node with; set `[serve] identity`"
        )
    if missing := [name for name, text in texts.items() if not isinstance(text, str)]:
        raise BriefError(f"malformed request of a node for secrets: it has no {', '.join(missing)}")
    key, certificate, signature, sealing, signed = (str(text) for text in texts.values())
    try:
        check_vouching(key, certificate, signature, authority, datetime.datetime.now(datetime.UTC))
        public, theirs = load_pem_public_key(key.encode()), base64.b64decode(sealing, validate=True)
        recipient = X25519PublicKey.from_public_bytes(theirs)
        is_own = isinstance(public, Ed25519PublicKey) and is_signed(
            public, _encode_statement(theirs), base64.b64decode(signed, validate=True)
        )
    except (ValueError, InvalidSignature) as e:
        raise BriefError(
            "secrets are not sent to the node: the key that requests them is not certified for a node of this cluster: "
            f"{explain_vouching(e)}"
        ) from e
    if not is_own:
        raise BriefError(
            "secrets are not sent to the node: the key to encrypt them with was not signed by the node's keys process"
        )
    return _seal(values, theirs, recipient)


def rehearse_sealing() -> None:
    """Do once what will be done in confinement, where nothing can be imported."""
    key = SealingKey()
    key.open(_seal({}, key.public, X25519PublicKey.from_public_bytes(key.public)))


def _seal(values: Mapping[str, bytes], theirs: bytes, recipient: X25519PublicKey) -> bytes:
    once = X25519PrivateKey.generate()
    ours = once.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    nonce = os.urandom(_NONCE_BYTES)
    data = json.dumps({name: base64.b64encode(value).decode() for name, value in values.items()}).encode()
    return ours + nonce + AESGCM(_derive(once.exchange(recipient), ours, theirs)).encrypt(nonce, data, _INFO)


def _encode_statement(public: bytes) -> bytes:
    return b"hotdesk-sealing-key 1 " + base64.b64encode(public)


def _derive(shared: bytes, ours: bytes, theirs: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=_INFO + ours + theirs).derive(shared)
