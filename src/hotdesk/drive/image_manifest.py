"""The signed manifest of an exported image: canonical JSON in one line, parsed strictly. Pure.

An exported image is one file: the line `MAGIC`, the manifest's line, and the payload, a gzip-compressed tar whose size
and SHA-256 are in the manifest. The signed message is `DOMAIN` and the manifest without its signature, as in a
certificate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import NAME_SHAPE
from hotdesk.desk.image.untar import ArchiveLimits
from hotdesk.drive.certificate import ENDING, HEX, LENGTH, encode_canonical, encode_public_key
from hotdesk.drive.signing import Signer, is_signed
from hotdesk.errors import ImageError
from hotdesk.strict import Range, StrictError, parse_json, read

MAGIC = b"hotdesk-image 1\n"
DOMAIN = b"hotdesk-image 1\n"
"""Prefix of the signed message, so that no other signature of hotdesk can be taken for an image's."""
MAX_MANIFEST_BYTES = 8 << 10
MAX_PAYLOAD_BYTES = 16 << 30
MAX_ENTRIES, MAX_FILE_BYTES = ArchiveLimits().entries, ArchiveLimits().size


@dataclass(frozen=True, slots=True)
class PayloadDigest:
    """Size and digest of the compressed tar after the manifest."""

    sha256: HEX
    size: Annotated[int, Range(1, MAX_PAYLOAD_BYTES)]


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """The signed description of an image."""

    arch: Literal["aarch64", "x86_64"]
    built: Annotated[int, Range(0, 1 << 40)]
    """Time of the build, in seconds since the epoch."""
    entries: Annotated[int, Range(1, MAX_ENTRIES)]
    """Number of the tar's entries; more are refused."""
    format: Literal[1]
    name: Annotated[str, NAME_SHAPE]
    payload: PayloadDigest
    public_key: HEX
    recipe: Annotated[str, re.compile(r"(?:[0-9a-f]{64})?")]
    """Digest of the recipe it was built from; empty: there was none."""
    size: Annotated[int, Range(0, MAX_FILE_BYTES)]
    """Total bytes of the tar's files; more are refused."""
    source: Annotated[str, re.compile(r"[ -~]{0,200}")]
    """A description of the image's origin."""
    version: Annotated[str, re.compile(r"[0-9a-z.+-]{1,40}")]
    """The hotdesk version that exported it."""


def sign(fields: Mapping[str, object], signer: Signer) -> bytes:
    """Sign a manifest's fields, without format and key; return its line."""
    try:
        manifest = read(ImageManifest, {**fields, "format": 1, "public_key": encode_public_key(signer.public)})
    except StrictError as e:
        raise ImageError(f"The image cannot be exported: its manifest is invalid: {e}.") from None
    body = encode_canonical(asdict(manifest))
    return body[:-1] + b',"signature":"' + signer.sign(DOMAIN + body).hex().encode() + b'"}\n'


def parse(line: bytes) -> tuple[ImageManifest, Ed25519PublicKey]:
    """Parse a manifest and verify its signature; raise `ImageError` with the reason if it is invalid.

    Whether the signer is trusted is not checked here.
    """
    ending = ENDING.fullmatch(line[-LENGTH:])
    if ending is None:
        raise ImageError(
            f"The image's manifest is incomplete, or longer than {MAX_MANIFEST_BYTES} bytes. Copy the file again."
        )
    body = line[:-LENGTH] + b"}"
    try:
        manifest = read(ImageManifest, parse_json(body))
    except StrictError as e:
        raise ImageError(f"The image's manifest is invalid: {e}. Copy the file again, or update hotdesk.") from None
    if encode_canonical(asdict(manifest)) != body:
        raise ImageError("The image's manifest is invalid: it is not canonical JSON. Copy the file again.")
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(manifest.public_key))
    if not is_signed(public, DOMAIN + body, bytes.fromhex(ending[1].decode())):
        raise ImageError(
            "The image's signature is not valid: the manifest was changed after it was signed. Copy the file again."
        )
    return manifest, public
