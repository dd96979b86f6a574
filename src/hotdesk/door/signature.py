"""AWS Signature Version 4, made anew: the desk signs with a placeholder, the door signs what really goes out.

A grant signs for one service and one region, and at S3 for one bucket. Refused, with the reason: requests signed in the
query, which are good for whoever holds the address, and bodies signed chunk by chunk, which would have to be rewritten.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, unquote_to_bytes

ALGORITHM = b"AWS4-HMAC-SHA256"
UNSIGNED = b"UNSIGNED-PAYLOAD"
CREDENTIAL = re.compile(
    rb"AWS4-HMAC-SHA256\s+.*Credential=([^/,\s]+)/(\d{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request\b.*"
)
REMADE = frozenset({b"authorization", b"x-amz-date", b"x-amz-content-sha256", b"x-amz-security-token", b"date"})
SIGNED = re.compile(rb"host|content-type|content-md5|x-amz-[a-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Signer:
    """A key, and the only thing it signs for."""

    key: str
    secret: bytes = field(repr=False)
    service: str
    region: str
    bucket: str = ""
    """At S3: the bucket, named by the host, or by the path where the host is that of all buckets."""
    token: bytes = field(default=b"", repr=False)
    """Of temporary keys: what goes along."""


def unsignable(headers: Sequence[tuple[bytes, bytes]], query: bytes) -> str | None:
    """Say why a request cannot be signed anew."""
    names = {unquote_to_bytes(pair.partition(b"=")[0]).lower() for pair in query.split(b"&")}
    if names & {b"x-amz-signature", b"x-amz-credential", b"x-amz-algorithm", b"signature"}:
        return "a presigned address is good for whoever holds it, so none is made or used here; sign in a header"
    for name, value in headers:
        folded = name.lower()
        if folded == b"x-amz-content-sha256" and value.strip().upper().startswith(b"STREAMING-"):
            return "a body signed chunk by chunk cannot be signed anew; send it whole or unsigned"
        if folded in (b"x-amz-trailer", b"x-amz-decoded-content-length"):
            return "a body signed chunk by chunk cannot be signed anew; send it whole or unsigned"
    return None


def key_of(authorization: bytes) -> tuple[bytes, str, str] | None:
    """Read which key a request says it is signed with, for which service and region; None: it is not signed so."""
    m = CREDENTIAL.fullmatch(authorization.strip())
    return (m[1], m[4].decode(), m[3].decode()) if m else None


def misdirected(signer: Signer, service: str, region: str, host: str, path: str) -> str | None:
    """Say why a signer does not sign this request."""
    if (service, region) != (signer.service, signer.region):
        return f"the key signs for {signer.service} in {signer.region} only"
    first = unquote_to_bytes(path.lstrip("/").partition("/")[0]).decode("latin-1")
    named = first if host.startswith("s3") else host.partition(".s3")[0]
    if signer.bucket and signer.bucket != named:
        return f"the key signs for the bucket {signer.bucket} only"
    return None


def sign(
    signer: Signer,
    method: str,
    path: str,
    query: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    body: bytes | None,
    at: str,
) -> list[tuple[bytes, bytes]]:
    """Give the headers with the signature of what goes out. `at` is `20150830T123600Z`; no body: it is not signed."""
    digest = UNSIGNED if body is None else hashlib.sha256(body).hexdigest().encode()
    made = [(name, value) for name, value in headers if name.lower().replace(b"_", b"-") not in REMADE]
    made.append((b"X-Amz-Date", at.encode()))
    if signer.service == "s3":
        made.append((b"X-Amz-Content-Sha256", digest))
    if signer.token:
        made.append((b"X-Amz-Security-Token", signer.token))
    signed, text = canonical(signer, method, path, query, made, digest)
    scope = f"{at[:8]}/{signer.region}/{signer.service}/aws4_request".encode()
    to_sign = b"\n".join([ALGORITHM, at.encode(), scope, hashlib.sha256(text).hexdigest().encode()])
    mac = hmac.new(derived(signer, at), to_sign, hashlib.sha256).hexdigest().encode()
    said = b"%s Credential=%s/%s, SignedHeaders=%s, Signature=%s"
    return [*made, (b"Authorization", said % (ALGORITHM, signer.key.encode(), scope, signed, mac))]


def canonical(
    signer: Signer, method: str, path: str, query: bytes, headers: Sequence[tuple[bytes, bytes]], digest: bytes
) -> tuple[bytes, bytes]:
    """Write a request in the one form that is signed; and the names of the headers in it."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if SIGNED.fullmatch(name.lower()):
            values.setdefault(name.lower(), []).append(b" ".join(value.split()))
    lines = [name + b":" + b",".join(values[name]) + b"\n" for name in sorted(values)]
    signed = b";".join(sorted(values))
    once = path if signer.service == "s3" else quote(path, safe="/~")
    parts = [method.encode(), (once or "/").encode(), canonical_query(query), b"".join(lines), signed, digest]
    return signed, b"\n".join(parts)


def canonical_query(query: bytes) -> bytes:
    """Write a query sorted, every name and value encoded once."""
    pairs = (pair.partition(b"=") for pair in query.split(b"&") if pair)
    spelt = ((encoded(name), encoded(value)) for name, _, value in pairs)
    return b"&".join(name + b"=" + value for name, value in sorted(spelt))


def encoded(text: bytes) -> bytes:
    """Percent-encode what may be encoded already."""
    return quote(unquote_to_bytes(text), safe="~").encode()


def derived(signer: Signer, at: str) -> bytes:
    """Derive the key of a day, region and service."""
    key = b"AWS4" + signer.secret
    for step in (at[:8], signer.region, signer.service, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    return key
