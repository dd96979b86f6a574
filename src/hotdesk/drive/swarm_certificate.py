"""Certificates of swarms: one signed root over the records of all items, and proofs of single items. Pure.

Records are the `ItemEnded` events as canonical JSON, in the order of the items. A proof is one record, its index, and
the siblings on the path to the root: with the file and the certificate, it can be verified without anything else.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotdesk.dataclass import dataclass
from hotdesk.drive import merkle
from hotdesk.drive.certificate import (
    CERTIFICATE,
    ENDING,
    HEX,
    HOTDESK,
    LARGEST,
    LENGTH,
    Fields,
    encode_canonical,
    encode_public_key,
    fits,
)
from hotdesk.drive.certificate import parse as parse_fields
from hotdesk.drive.signing import Signer, is_signed
from hotdesk.errors import BriefError
from hotdesk.event import ItemEnded, as_dict, from_json
from hotdesk.strict import StrictError, parse_json

FORMAT = 1
DOMAIN = b"hotdesk-swarm-certificate 1\n"
"""Prefix of the signed message, so that a file's certificate cannot be taken for a swarm's."""
MOST_SHARED = 100
"""Maximum number of items whose deliverables may be checked in one clean desk."""
MAX_PROOF_BYTES = 1 << 16
_MAX_SIBLINGS = 64
CONFIDENCE = 0.95

SHAPE: Fields = {
    "at": int,
    "brain": {"name": str},
    "checks": [str],
    "desks": {"clean": int, "shared_by_at_most": int, "walls": [str], "working": int},
    "format": int,
    "hotdesk": HOTDESK,
    "items": {"count": int, "done": int, "manifest": HEX, "quarantined": int, "root": HEX},
    "job": CERTIFICATE["job"],
    "journal": CERTIFICATE["journal"],
    "plan": CERTIFICATE["plan"],
    "public_key": HEX,
    "report": [{"job": str, "name": str, "sha256": HEX}],
    "review": {"error_bound": float, "reviewed": int, "wrong": int},
}
PROOF: Fields = {"count": int, "index": int, "record": dict, "siblings": [str]}


@dataclass(frozen=True, slots=True)
class ItemProof:
    """The proof that one item's record belongs to a root."""

    record: ItemEnded
    index: int
    count: int
    siblings: tuple[bytes, ...]

    def leads_to(self, root: str) -> bool:
        leaf = merkle.hash_leaf(encode_record(self.record))
        return merkle.is_proven(leaf, self.index, self.count, self.siblings, bytes.fromhex(root))


def encode_record(event: ItemEnded) -> bytes:
    return encode_canonical(as_dict(event))


def compute_root(events: Sequence[ItemEnded]) -> str:
    return merkle.compute_root([merkle.hash_leaf(encode_record(each)) for each in events]).hex()


def prove(events: Sequence[ItemEnded], index: int) -> ItemProof:
    levels = merkle.build_levels([merkle.hash_leaf(encode_record(each)) for each in events])
    return ItemProof(events[index], index, len(events), merkle.make_proof(levels, index))


def write_proof(proof: ItemProof) -> bytes:
    siblings = [base64.b64encode(each).decode() for each in proof.siblings]
    fields = {"count": proof.count, "index": proof.index, "record": as_dict(proof.record), "siblings": siblings}
    return encode_canonical(fields) + b"\n"


def read_proof(data: bytes) -> ItemProof:
    """Parse a proof from an untrusted source; raise `BriefError` if it is invalid."""
    try:
        if len(data) > MAX_PROOF_BYTES:
            raise ValueError(f"it has more than {MAX_PROOF_BYTES} bytes")
        fields = parse_json(data.decode("ascii"))
        if not fits(fields, PROOF) or len(fields["siblings"]) > _MAX_SIBLINGS:
            raise ValueError("a field is missing, unknown, or of the wrong type")
        record = from_json(ItemEnded.__name__, encode_canonical(fields["record"]).decode())
        siblings = tuple(base64.b64decode(each, validate=True) for each in fields["siblings"])
    except (ValueError, StrictError, RecursionError, binascii.Error) as e:
        raise BriefError(f"the file is not a proof of a swarm item: {str(e)[:200]}") from None
    assert isinstance(record, ItemEnded)
    return ItemProof(record, fields["index"], fields["count"], siblings)


def sign(fields: Fields, signer: Signer) -> bytes:
    """Sign a swarm's certificate; return its bytes as stored."""
    fields = {**fields, "format": FORMAT, "public_key": encode_public_key(signer.public)}
    if not fits(fields, SHAPE):
        raise BriefError("invalid swarm certificate: a field is missing, unknown, or of the wrong type")
    body = encode_canonical(fields)
    return body[:-1] + b',"signature":"' + signer.sign(DOMAIN + body).hex().encode() + b'"}\n'


def read(data: bytes) -> tuple[Fields, Ed25519PublicKey]:
    """Parse a swarm's certificate and verify its signature; raise `BriefError` with the reason if it is invalid."""
    ending = ENDING.fullmatch(data[-LENGTH:]) if len(data) <= LARGEST else None
    if ending is None:
        raise BriefError(
            f"the file is not a swarm certificate: it exceeds {LARGEST >> 10} KiB, or does not end with a signature"
        )
    body = data[:-LENGTH] + b"}"
    fields = parse_fields(body)
    if fields.get("format") != FORMAT or not fits(fields, SHAPE) or encode_canonical(fields) != body:
        raise BriefError(
            "the file is not a swarm certificate: a field is missing, unknown, or of the wrong type or format"
        )
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(fields["public_key"]))
    if not is_signed(public, DOMAIN + body, bytes.fromhex(ending[1].decode())):
        raise BriefError(
            "the signature is not valid: the file was changed after it was signed, or is another kind of document"
        )
    return fields, public


def compute_error_bound(reviewed: int, wrong: int, confidence: float = CONFIDENCE) -> float:
    """Return the upper bound of the share of wrong items, from a random sample (Clopper-Pearson, one-sided)."""
    if reviewed == 0 or wrong >= reviewed:
        return 1.0
    low, high = wrong / reviewed, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if _compute_chance_of_at_most(wrong, reviewed, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return round(high, 6)


def _compute_chance_of_at_most(wrong: int, count: int, share: float) -> float:
    if share >= 1.0:
        return 0.0
    logs = (
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        + (k * math.log(share) if k else 0.0) + (count - k) * math.log1p(-share)
        for k in range(wrong + 1)
    )  # fmt: skip
    return sum(math.exp(each) for each in logs)
