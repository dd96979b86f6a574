"""Checks a node's signed proof of a desk's wall, from the cluster's authority down to the wall. Pure.

The authority signs the node's certificate, the certificate's key signs the key that signs events there, and that key
signs the event by which the node's keeper opened the desk.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Mapping

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from hotdesk.drive.chain import Row, compute_digest, encode_statement
from hotdesk.drive.export import load_json, parse_row
from hotdesk.drive.signing import is_signed
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import Opened
from hotdesk.event.desk import KEEPER, find_proof
from hotdesk.walls import WallProof

MAX_TEXT = 16384
"""Maximum characters of each part."""


def encode_vouching(key: bytes) -> bytes:
    """Return the bytes that a node's certificate key signs to vouch for the key, in PEM, that signs events there."""
    return b"hotdesk-node-key 1 " + hashlib.sha256(key).hexdigest().encode()


def check_proof(statement: Mapping[str, object], desk: str, authority: str, now: datetime.datetime) -> WallProof:
    """Return the wall that a node's keeper proved of a desk without a door; raise `BriefError` for an invalid proof."""
    texts = {name: statement.get(name) for name in ("row", "key", "certificate", "signature")}
    if not authority:
        raise BriefError(
            f"the node's record of opening desk {desk} cannot be verified: this process has no certificate of a "
            "cluster's authority; set `[serve] identity`"
        )
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            raise BriefError(
                f"malformed record of opening desk {desk} from its node: `{name}` is missing, or has more than "
                f"{MAX_TEXT} characters"
            )
    row, key, certificate, signature = (str(text) for text in texts.values())
    try:
        check_vouching(key, certificate, signature, authority, now)
        public, event = load_pem_public_key(key.encode()), parse_row(load_json(row))
    except (ValueError, InvalidSignature) as e:
        raise BriefError(
            f"the key that signed the opening of desk {desk} is not certified for a node of this cluster: "
            f"{explain_vouching(e)}"
        ) from e
    if not isinstance(public, Ed25519PublicKey) or event is None or not _is_whole(event, public):
        raise BriefError(
            f"the wall of desk {desk} cannot be verified: the signature of its node's record is not valid; open "
            "another desk"
        )
    opened = event.read_event()
    proof = find_proof(opened)
    if event.chain != desk or event.actor != KEEPER or not isinstance(opened, Opened) or proof is None:
        raise BriefError(
            f"the wall of desk {desk} cannot be verified: the record that its node sent does not show that the node's "
            "keeper opened this desk; open another desk"
        )
    if opened.desk != desk or opened.scope or opened.rules or opened.grants:
        raise BriefError(
            f"the wall of desk {desk} cannot be verified: the desk was opened with network access (a door); open a "
            "desk without it"
        )
    return proof


def explain_vouching(error: ValueError | InvalidSignature) -> str:
    return make_printable(str(error)[:200]) or "a signature is not valid"


def check_vouching(key: str, certificate: str, signature: str, authority: str, now: datetime.datetime) -> None:
    """Raise `ValueError` or `InvalidSignature` unless a node of the authority vouches for a key."""
    issuer = x509.load_pem_x509_certificate(authority.encode())
    node = x509.load_pem_x509_certificate(certificate.encode())
    try:
        node.verify_directly_issued_by(issuer)
        usage = node.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (TypeError, x509.ExtensionNotFound) as e:
        raise ValueError(str(e)) from e
    if list(usage) != [ExtendedKeyUsageOID.SERVER_AUTH]:
        raise ValueError("the certificate does not belong to a node; write one with `hotdesk node enroll`")
    if now < node.not_valid_before_utc:
        raise ValueError(
            f"the node's certificate is not valid before {node.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; check the "
            "clocks of both machines"
        )
    if now > node.not_valid_after_utc:
        raise ValueError(
            f"the node's certificate expired on {node.not_valid_after_utc:%Y-%m-%d}; write another with "
            "`hotdesk node enroll`"
        )
    public = node.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise ValueError(
            "the key of the node's certificate is not an elliptic-curve key; write another with `hotdesk node enroll`"
        )
    public.verify(base64.b64decode(signature, validate=True), encode_vouching(key.encode()), ec.ECDSA(hashes.SHA256()))


def _is_whole(row: Row, key: Ed25519PublicKey) -> bool:
    """Return whether a row is the first of its chain, with a valid hash and signature."""
    if row.seq != 1 or row.signature is None or row.hash != compute_digest(row, None):
        return False
    return is_signed(key, encode_statement(row.chain, row.seq, row.hash), row.signature)
