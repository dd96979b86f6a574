"""Certificates: what was seen of a file, as signed canonical JSON. Pure; a foreign certificate is read strictly.

Canonical: keys sorted, no spaces, ASCII, one line. `signature` is its last key: what is signed is `hotdesk-certificate
1`, a line's end, and the certificate without that key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hotdesk.drive.signing import Signer, is_signed
from hotdesk.errors import BriefError
from hotdesk.strict import StrictError, compile_reader, parse_json

FORMAT = 2
ADDRESSED = 3
"""The format with the addresses of models; used when one was asked elsewhere than at its vendor's."""
PROVEN = 4
"""The format that says, as well, which wall each desk's keeper proved: what a machine with walls writes."""
DOMAIN = b"hotdesk-certificate 1\n"
"""What is signed begins so: no signature of ours under anything else can be taken for one under a certificate."""
SUFFIX = ".certificate.json"
"""What a certificate's file is called after the file it is of."""
LARGEST = 1 << 20
"""Bytes of the largest certificate."""
PLAIN = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
ENDING = re.compile(rb',"signature":"([0-9a-f]{128})"\}\n')
LENGTH = len(b',"signature":""}\n') + 128

Fields: TypeAlias = dict[str, Any]
"""A certificate's JSON, once its shape was seen to be one's."""
_Shape: TypeAlias = Any
"""A type hint, a list of one shape, or the shapes of exactly these keys."""
HEX = Annotated[str, re.compile(r"[0-9a-f]{64}")]
DIGEST = Annotated[str, re.compile(r"(?:[0-9a-f]{64})?")]
"""A SHA-256, or nothing where there is none."""
WHO = Literal["script", "model"]
"""Who thought: a script's decisions are fixed beforehand."""


CHECK: dict[str, _Shape] = {
    "beside": dict[str, HEX],
    "check": str,
    "desk": {"id": str, "network": bool, "sterile": bool, "wall": str},
    "expect": dict,
    "held": [str],
    "image": {"digest": DIGEST, "name": str},
    "looked_for": [str],
    "not_checked": [str],
    "pages": [{"height": int, "sha256": HEX, "size": int, "width": int}],
    "tools": dict[str, str],
    "values": dict[str, str | int | float | bool | None],
}
"""One check: `network` says whether its desk reached any, `sterile` whether no one had worked on what it stood on.

`beside` has what the brief gave it: a check of the brief's own, and what a file was compared with.
"""
FILE: dict[str, _Shape] = {"name": str, "sha256": HEX, "size": int}
HOTDESK: dict[str, _Shape] = {"architecture": str, "version": str}
CLAIM: dict[str, _Shape] = {"brain": {"kind": WHO}, "checks": [CHECK], "file": FILE, "hotdesk": HOTDESK, "job": str}
"""What a job's process says of a file; everything else is what the journal says."""
CERTIFICATE: dict[str, _Shape] = {
    "at": int,
    "brain": {"kind": WHO, "models": [str], "name": str},
    "checks": [CHECK],
    "file": FILE,
    "format": int,
    "hotdesk": HOTDESK,
    "job": {"brief": str, "by": str, "goal": HEX, "id": str},
    "journal": {
        "job": {"hash": HEX, "seq": int},
        "last": {"hash": HEX, "id": int},
    },
    "plan": {
        "approvals": [{"answer": str, "at": int, "by": str, "digest": str, "kind": str, "step": str}],
        "digest": str,
    },
    "public_key": HEX,
}
_ADDRESSED_BRAIN = {**CERTIFICATE["brain"], "addresses": [{"address": str, "model": str}]}
"""Which models were asked at an address that is not their vendor's own."""
_PROVEN_DESK = {**CHECK["desk"], "boundary": bool, "kernel": str, "platform": str, "version": str}
"""The wall as the keeper saw it: whether it is an isolation boundary, which kernel answers programs, and the program
that put it up, with its version and the way it runs desks."""
_FIRST_CHECK = {name: shape for name, shape in CHECK.items() if name != "beside"}
_FORMATS: dict[int, dict[str, _Shape]] = {
    1: {**CERTIFICATE, "checks": [_FIRST_CHECK]},
    FORMAT: CERTIFICATE,
    ADDRESSED: {**CERTIFICATE, "brain": _ADDRESSED_BRAIN},
    PROVEN: {**CERTIFICATE, "brain": _ADDRESSED_BRAIN, "checks": [{**CHECK, "desk": _PROVEN_DESK}]},
}
"""Every format there was: a certificate can always be read. The first one did not say what checks had beside them."""


def fits(value: object, shape: _Shape) -> bool:
    """Return whether JSON has a shape: exactly these keys, exactly these types."""
    if isinstance(shape, dict):
        if not isinstance(value, dict) or value.keys() != shape.keys():
            return False
        return all(fits(value[key], inner) for key, inner in shape.items())
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(each, shape[0]) for each in value)
    try:
        compile_reader(shape)(value)
    except StrictError:
        return False
    return True


def encode_canonical(fields: Mapping[str, object]) -> bytes:
    return PLAIN.encode(fields).encode("ascii")


def encode_public_key(public: Ed25519PublicKey) -> str:
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def sign(fields: Fields, signer: Signer) -> bytes:
    number = _choose_format(fields)
    fields = {**fields, "format": number, "public_key": encode_public_key(signer.public)}
    if not fits(fields, _FORMATS[number]):
        raise BriefError("invalid certificate: a field is missing, unknown, or of the wrong type")
    body = encode_canonical(fields)
    signed = body[:-1] + b',"signature":"' + signer.sign(DOMAIN + body).hex().encode() + b'"}\n'
    if len(signed) > LARGEST:
        raise BriefError(f"the certificate would have more than {LARGEST} bytes; use fewer checks for this deliverable")
    return signed


def _choose_format(fields: Fields) -> int:
    if any("kernel" in each["desk"] for each in fields["checks"]):
        return PROVEN
    return ADDRESSED if "addresses" in fields["brain"] else FORMAT


def read(data: bytes) -> tuple[Fields, Ed25519PublicKey]:
    """Read a certificate and verify its own signature; `BriefError` says what is wrong with it.

    The signer is not checked: a key in a certificate proves only that its holder wrote it.
    """
    if len(data) > LARGEST:
        raise BriefError(f"the file is not a certificate: it has more than {LARGEST} bytes")
    ending = ENDING.fullmatch(data[-LENGTH:])
    if ending is None:
        raise BriefError("the certificate is incomplete: it does not end with a signature")
    body = data[:-LENGTH] + b"}"
    fields = parse(body)
    shape = next((each for number, each in _FORMATS.items() if fields.get("format") == number), None)
    if shape is None:
        raise BriefError(
            "the certificate has an unknown format; use the version of hotdesk that wrote it, or a newer one"
        )
    if not fits(fields, shape) or encode_canonical(fields) != body:
        raise BriefError(
            "the file is not a certificate: a field is missing, unknown, of the wrong type, or not in canonical form"
        )
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(fields["public_key"]))
    if not is_signed(public, DOMAIN + body, bytes.fromhex(ending[1].decode())):
        raise BriefError(
            "the signature is not valid: the file was changed after it was signed, or is another kind of document"
        )
    return fields, public


def parse(data: bytes) -> Fields:
    """Read JSON in which no key is there twice."""
    try:
        found = parse_json(data.decode("ascii"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BriefError("the file is not a certificate: it is not canonical JSON")
    return found


def compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_beside(beside: Mapping[str, str]) -> str:
    """Return the digest of what a check had beside the file, as the journal has it; empty: nothing."""
    return hashlib.sha256(encode_canonical(dict(beside))).hexdigest() if beside else ""
