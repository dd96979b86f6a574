"""Certificates: the evidence of a file's checks, as signed canonical JSON. Pure; foreign certificates are parsed
strictly.

Canonical means: keys sorted, no spaces, ASCII, one line. The last key is `signature`. The signed message is
`hotdesk-certificate 1`, a newline, and the certificate without that key.
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
"""The format with the addresses of models, used when a model was not called at its vendor's address."""
PROVEN = 4
"""The format that also has the wall that each desk's keeper proved. Machines with walls write it."""
DOMAIN = b"hotdesk-certificate 1\n"
"""Prefix of the signed message, so that no other signature of hotdesk can be taken for a certificate's."""
SUFFIX = ".certificate.json"
"""The suffix of a certificate's file, after the name of the certified file."""
LARGEST = 1 << 20
"""Maximum bytes of a certificate."""
PLAIN = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
ENDING = re.compile(rb',"signature":"([0-9a-f]{128})"\}\n')
LENGTH = len(b',"signature":""}\n') + 128

Fields: TypeAlias = dict[str, Any]
"""A certificate's JSON, after its shape was checked."""
_Shape: TypeAlias = Any
"""The shape of a value: a type hint, a list of one shape, or a dict with the shapes of exactly its keys."""
HEX = Annotated[str, re.compile(r"[0-9a-f]{64}")]
DIGEST = Annotated[str, re.compile(r"(?:[0-9a-f]{64})?")]
"""A SHA-256, or an empty string."""
WHO = Literal["script", "model"]
"""The kind of brain; a script's decisions are fixed beforehand."""


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
"""One check. `network`: its desk could reach a network; `sterile`: no worker had used its desk.

`beside` has the SHA-256 of the brief's files that the check used: a custom check, or files to compare with.
"""
FILE: dict[str, _Shape] = {"name": str, "sha256": HEX, "size": int}
HOTDESK: dict[str, _Shape] = {"architecture": str, "version": str}
CLAIM: dict[str, _Shape] = {"brain": {"kind": WHO}, "checks": [CHECK], "file": FILE, "hotdesk": HOTDESK, "job": str}
"""The statements of a job's process about a file. Everything else in a certificate comes from the journal."""
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
"""The brain, with the models that were called at an address other than their vendor's."""
_PROVEN_DESK = {**CHECK["desk"], "boundary": bool, "kernel": str, "platform": str, "version": str}
"""The desk with the wall that the keeper proved.

`boundary`: whether it is an isolation boundary; `kernel`: the kernel that serves programs; `version` and `platform`:
the program that implements the wall, and how it runs desks.
"""
_FIRST_CHECK = {name: shape for name, shape in CHECK.items() if name != "beside"}
_FORMATS: dict[int, dict[str, _Shape]] = {
    1: {**CERTIFICATE, "checks": [_FIRST_CHECK]},
    FORMAT: CERTIFICATE,
    ADDRESSED: {**CERTIFICATE, "brain": _ADDRESSED_BRAIN},
    PROVEN: {**CERTIFICATE, "brain": _ADDRESSED_BRAIN, "checks": [{**CHECK, "desk": _PROVEN_DESK}]},
}
"""All formats, so that every certificate stays readable. The first had no `beside`."""


def fits(value: object, shape: _Shape) -> bool:
    """Return whether a JSON value has a shape: exactly these keys, exactly these types."""
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
        raise BriefError(
            f"the certificate would have more than {LARGEST >> 10} KiB; use fewer checks for this deliverable"
        )
    return signed


def _choose_format(fields: Fields) -> int:
    if any("kernel" in each["desk"] for each in fields["checks"]):
        return PROVEN
    return ADDRESSED if "addresses" in fields["brain"] else FORMAT


def read(data: bytes) -> tuple[Fields, Ed25519PublicKey]:
    """Parse a certificate and verify its signature; raise `BriefError` with the reason if it is invalid.

    The signer is not checked: the key in a certificate proves only that its holder wrote it.
    """
    if len(data) > LARGEST:
        raise BriefError(f"the file is not a certificate: it has more than {LARGEST >> 10} KiB")
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
    """Parse JSON strictly; duplicate keys are an error."""
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
    """Return the digest, as recorded in the journal, of the files beside a checked file; empty: there were none."""
    return hashlib.sha256(encode_canonical(dict(beside))).hexdigest() if beside else ""
