"""Exported images made by hand: some as `hotdesk image export` writes them, others as only an attacker would."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotdesk.drive.certificate import encode_canonical, encode_public_key
from hotdesk.drive.image_manifest import DOMAIN, MAGIC
from hotdesk.drive.signing import Signer, compute_fingerprint

Entry = tuple[str, dict[str, object], bytes]
PYTHON: Entry = ("usr/bin/python3", {"mode": 0o755}, b"#!/bin/sh\n")


def new_signer() -> Signer:
    return Signer(Ed25519PrivateKey.generate())


def trust(signer: Signer) -> dict[str, str]:
    return {compute_fingerprint(signer.public): "trusted by --signer"}


def pack(*entries: Entry) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, fields, data in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue(), 0, mtime=0)  # uncompressed: its length must not depend on content


def fields_of(payload: bytes, signer: Signer, **changes: object) -> dict[str, object]:
    return {
        "arch": os.uname().machine,
        "built": 1_700_000_000,
        "entries": 100,
        "format": 1,
        "name": "mine",
        "payload": {"sha256": hashlib.sha256(payload).hexdigest(), "size": len(payload)},
        "public_key": encode_public_key(signer.public),
        "recipe": "",
        "size": 1 << 20,
        "source": "a test",
        "version": "1.0",
        **changes,
    }


def sign_line(body: bytes, signer: Signer, domain: bytes = DOMAIN) -> bytes:
    return body[:-1] + b',"signature":"' + signer.sign(domain + body).hex().encode() + b'"}\n'


def archive(payload: bytes, fields: Mapping[str, object], signer: Signer) -> bytes:
    return MAGIC + sign_line(encode_canonical(fields), signer) + payload
