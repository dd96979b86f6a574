"""Sign AWS Signature Version 4 requests again: the desk signs with a placeholder, the door with the key. Pure.

A key signs for one service and one region, and at S3 for one bucket. Refused, with the reason: requests signed in the
query, because anyone who has the URL can use it, and bodies signed chunk by chunk, which would have to be rewritten.

S3 gets a body's hash in a header and verifies the body itself, so the desk's value is signed as it is (also
`UNSIGNED-PAYLOAD`; a grant works over https only), and bodies of any size pass. Other services hash the body
themselves, so the whole body is needed, 1 MiB at most.

Not prevented: what a key may do to its own bucket, such as publishing or replicating it, which is up to the key's own
policy; and a host that echoes a request's headers reveals a signature, valid for that very request for some minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from urllib.parse import quote, unquote_to_bytes

from hotdesk.dataclass import dataclass

_ALGORITHM = b"AWS4-HMAC-SHA256"
DIGEST = re.compile(rb"[0-9a-f]{64}|UNSIGNED-PAYLOAD")
_CREDENTIAL = re.compile(
    rb"AWS4-HMAC-SHA256 Credential=([^/,\s]{1,128})/(\d{8})/([a-z0-9-]{1,64})/([a-z0-9-]{1,64})/aws4_request\b.*"
)
LONGEST_AUTHORIZATION = 2048
_AMAZON = re.compile(r"(?:(.+)\.)?s3(?:[.-][a-z0-9.-]+)?\.amazonaws\.com(?:\.cn)?")
"""Hosts of S3, with the bucket that they name."""
PRESIGNED = "a presigned URL is refused, because anyone who has it can use it; sign in the Authorization header"
STREAMED = (
    "a body that is signed in chunks cannot be signed again; send it in one piece or unsigned"
    " (SDKs do with AWS_REQUEST_CHECKSUM_CALCULATION=when_required)"
)
BODY_TOO_LARGE = "the body is too large to be signed (limit 1 MiB, except at S3); send a smaller one"
_REMADE = frozenset({b"authorization", b"x-amz-date", b"x-amz-content-sha256", b"x-amz-security-token", b"date"})
SIGNED = re.compile(rb"host|content-type|content-md5|x-amz-[a-z0-9-]+")


@dataclass(frozen=True, slots=True)
class SigV4Signer:
    """A key, and the only thing it signs for."""

    key: str
    """The key's id. The key itself is not stored here."""
    service: str
    region: str
    bucket: str = ""
    """The bucket at S3. Amazon's host names may contain it; at any other host it is the first part of the path."""


def explain_unsignable(headers: Sequence[tuple[bytes, bytes]], query: bytes) -> str | None:
    """Explain why a request cannot be signed again, or return `None`."""
    names = {unquote_to_bytes(pair.partition(b"=")[0]).lower() for pair in query.split(b"&")}
    if names & {b"x-amz-signature", b"x-amz-credential", b"x-amz-algorithm", b"signature"}:
        return PRESIGNED
    for name, value in headers:
        if _fold_name(name) == b"x-amz-content-sha256" and value.strip().upper().startswith(b"STREAMING-"):
            return STREAMED
        if _fold_name(name) in (b"x-amz-trailer", b"x-amz-decoded-content-length"):
            return STREAMED
    return None


def parse_credential(authorization: bytes) -> tuple[bytes, str, str] | None:
    """Parse key id, service and region of a request's signature; return `None` if it has no such signature."""
    if len(authorization) > LONGEST_AUTHORIZATION:
        return None
    m = _CREDENTIAL.fullmatch(authorization.strip())
    return (m[1], m[4].decode(), m[3].decode()) if m else None


def explain_misdirection(
    signer: SigV4Signer, authorization: bytes, host: str, path: str, headers: Sequence[tuple[bytes, bytes]]
) -> str | None:
    key = parse_credential(authorization)
    if key is None or key[1:] != (signer.service, signer.region):
        return f"the granted key may sign for {signer.service} in {signer.region} only"
    sources = [unquote_to_bytes(value) for name, value in headers if _fold_name(name) == b"x-amz-copy-source"]
    copied = {source.removeprefix(b"/").partition(b"/")[0].decode("latin-1") for source in sources}
    if signer.bucket and {_get_bucket(host, path), *copied} != {signer.bucket}:
        return f"the granted key may sign for the bucket {signer.bucket} only"
    return None


def explain_other_bucket(signers: Sequence[SigV4Signer], host: str, path: str) -> str | None:
    """Explain that a request is for none of the buckets that a host's keys sign for; it need not be signed."""
    buckets = {signer.bucket for signer in signers}
    if "" in buckets or _get_bucket(host, path) in buckets:
        return None
    return f"this host may be used for the bucket {', '.join(sorted(buckets))} only"


def _get_bucket(host: str, path: str) -> str:
    m = _AMAZON.fullmatch(host)
    return m[1] if m and m[1] else unquote_to_bytes(path.removeprefix("/").partition("/")[0]).decode("latin-1")


def _fold_name(name: bytes) -> bytes:
    """Normalise a header's name: some servers take `_` for `-`."""
    return name.lower().replace(b"_", b"-")


def read_declared_digest(signer: SigV4Signer, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the digest to sign when the body is not available: at S3 the request's own. Empty: the body is needed."""
    digests = [value.strip() for name, value in headers if _fold_name(name) == b"x-amz-content-sha256"]
    return digests[0] if signer.service == "s3" and len(digests) == 1 and DIGEST.fullmatch(digests[0]) else b""


def compute_digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def sign(
    signer: SigV4Signer,
    secret: bytes,
    method: str,
    path: str,
    query: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    digest: bytes,
    at: str,
) -> list[tuple[bytes, bytes]]:
    """Return headers with the signature of the request. `digest` stands for the body; `at`: `20150830T123600Z`."""
    fields = [(name, value) for name, value in headers if _fold_name(name) not in _REMADE]
    fields.append((b"X-Amz-Date", at.encode()))
    if signer.service == "s3":
        fields.append((b"X-Amz-Content-Sha256", digest))
    signed, text = _canonicalize_request(signer, method, path, query, fields, digest)
    scope = f"{at[:8]}/{signer.region}/{signer.service}/aws4_request".encode()
    to_sign = b"\n".join([_ALGORITHM, at.encode(), scope, compute_digest(text)])
    mac = hmac.new(_derive_key(signer, secret, at), to_sign, hashlib.sha256).hexdigest().encode()
    template = b"%s Credential=%s/%s, SignedHeaders=%s, Signature=%s"
    return [*fields, (b"Authorization", template % (_ALGORITHM, signer.key.encode(), scope, signed, mac))]


def _canonicalize_request(
    signer: SigV4Signer, method: str, path: str, query: bytes, headers: Sequence[tuple[bytes, bytes]], digest: bytes
) -> tuple[bytes, bytes]:
    """Return the names of the signed headers, and the request in its canonical form."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if SIGNED.fullmatch(name.lower()):
            values.setdefault(name.lower(), []).append(b" ".join(value.split()))
    lines = [name + b":" + b",".join(values[name]) + b"\n" for name in sorted(values)]
    signed = b";".join(sorted(values))
    parts = [
        method.encode(),
        canonicalize_path(signer, path),
        _canonicalize_query(query),
        b"".join(lines),
        signed,
        digest,
    ]
    return signed, b"\n".join(parts)


def canonicalize_path(signer: SigV4Signer, path: str) -> bytes:
    """Return a path encoded once more than it is sent; for S3 encoded once, as S3 reads it."""
    if signer.service == "s3":
        return b"/".join(_percent_encode(part) for part in (path or "/").encode().split(b"/"))
    return quote(path or "/", safe="/~").encode()


def _canonicalize_query(query: bytes) -> bytes:
    """Return a query sorted, with every name and value encoded once."""
    pairs = (pair.partition(b"=") for pair in query.split(b"&") if pair)
    spelt = ((_percent_encode(name), _percent_encode(value)) for name, _, value in pairs)
    return b"&".join(name + b"=" + value for name, value in sorted(spelt))


def _percent_encode(text: bytes) -> bytes:
    return quote(unquote_to_bytes(text), safe="~").encode()


def _derive_key(signer: SigV4Signer, secret: bytes, at: str) -> bytes:
    key = b"AWS4" + secret
    for step in (at[:8], signer.region, signer.service, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    return key
