"""Kinds of secrets: their public fields and valid values. Pure."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import json
import re
import struct
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Literal, NoReturn, TypeAlias
from urllib.parse import urlsplit

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError

MIN_VALUE_BYTES, MAX_VALUE_BYTES = 8, 64 << 10
"""Size limits of a value, in bytes. A shorter one cannot be told from ordinary text when responses are scrubbed."""
_MIN_SEED_BYTES = 10
"""Minimum bytes of a decoded TOTP seed."""
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{3,128}")
_SIGNED_FOR = re.compile(r"[a-z0-9-]{1,64}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
Algorithm: TypeAlias = Literal["SHA1", "SHA256", "SHA512"]


class Secret:
    """A value that is not shown in `repr`, and cannot be hashed or pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = bytes(value)

    def get_bytes(self) -> bytes:
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    def __hash__(self) -> NoReturn:
        """Raise: a hash would be a fingerprint of the value."""
        raise TypeError("a secret cannot be hashed")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled")


@dataclass(frozen=True, slots=True)
class Token:
    """A value that is sent unchanged."""


@dataclass(frozen=True, slots=True)
class Basic:
    """A password and its user name."""

    user: str


@dataclass(frozen=True, slots=True)
class OAuth2:
    """A client secret that is exchanged for access tokens."""

    token_url: str
    client_id: str
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Totp:
    """The seed of time-based one-time codes, in base32."""

    digits: int = 6
    period: int = 30
    algorithm: Algorithm = "SHA1"


@dataclass(frozen=True, slots=True)
class Command:
    """A program that prints a token; the value is its argument list as JSON."""


@dataclass(frozen=True, slots=True)
class SigV4:
    """A key that signs requests (AWS Signature Version 4), with the only service, region and bucket it signs for."""

    key_id: str
    service: str
    region: str
    bucket: str = ""


Public: TypeAlias = Token | Basic | OAuth2 | Totp | Command | SigV4
KINDS: Mapping[str, type[Public]] = {
    "token": Token,
    "basic": Basic,
    "oauth2": OAuth2,
    "totp": Totp,
    "command": Command,
    "sigv4": SigV4,
}


def get_kind(public: Public) -> str:
    return next(name for name, kind in KINDS.items() if type(public) is kind)


def load_public(kind: object, data: object) -> Public:
    """Parse the public fields of a kind strictly: all of them, each of its type, no others."""
    public_class = KINDS.get(kind) if isinstance(kind, str) else None
    if public_class is None or not isinstance(data, dict):
        raise ValueError(f"unknown kind {kind!r}")
    expected = {field.name: int if field.type == "int" else str for field in fields(public_class)}
    if {name: type(value) for name, value in data.items()} != expected:
        raise ValueError(f"a secret of kind {kind} must have exactly the public fields {', '.join(sorted(expected))}")
    return public_class(**data)


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise BriefError(
            f"{name[:80]!r} is not a valid secret name; use 1 to 64 characters of a-z, 0-9 and -, such as erp-token"
        )
    return name


def check_public(public: Public, *, loopback: bool = False) -> None:
    """Raise `BriefError` for invalid public fields. `loopback` admits a token URL without TLS on this machine."""
    match public:
        case Basic(user):
            require(
                bool(user) and ":" not in user and is_plain(user),
                "the user name of a basic secret must not be empty, and must not contain `:` or control characters",
            )
        case OAuth2(url, client, scope):
            _check_token_url(url, loopback=loopback)
            require(bool(client) and is_plain(client), "an oauth2 secret needs the client id: --client-id")
            require(is_plain(scope), "a scope must be words separated by spaces")
        case Totp(digits, period, algorithm):
            require(digits in (6, 7, 8), "--digits must be 6, 7 or 8")
            require(5 <= period <= 300, "--period must be 5 to 300 seconds")
            require(algorithm in ("SHA1", "SHA256", "SHA512"), "--algorithm must be SHA1, SHA256 or SHA512")
        case SigV4():
            _check_signing(public)


def _check_signing(public: SigV4) -> None:
    """Raise `BriefError` for an incomplete SigV4 key. For S3 it needs a bucket, or it would sign for anyone's."""
    require(bool(_KEY_ID.fullmatch(public.key_id)), "a sigv4 secret needs the id of its access key: --key-id")
    require(bool(_SIGNED_FOR.fullmatch(public.service)), "a sigv4 secret needs a service, such as --service s3")
    require(bool(_SIGNED_FOR.fullmatch(public.region)), "a sigv4 secret needs a region, such as --region eu-west-1")
    stores = public.service.startswith("s3")
    require(stores or not public.bucket, "--bucket needs --service s3")
    require(not stores or bool(_BUCKET.fullmatch(public.bucket)), "a sigv4 secret for s3 needs a bucket: --bucket")


def _check_token_url(url: str, *, loopback: bool) -> None:
    """Raise `BriefError` for a token URL that is not https to a plain host."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError as e:
        raise BriefError(f"invalid token URL {url[:200]!r}: {e}") from e
    require(
        bool(host) and port != 0 and url.isascii() and url.isprintable() and " " not in url,
        f"the token URL {url!r} is not valid; write one such as https://login.example.test/token",
    )
    require(
        parts.username is None and parts.password is None and "#" not in url,
        "a token URL must not have a user name, a password or a fragment (#)",
    )
    safe = parts.scheme == "https" or (parts.scheme == "http" and loopback and is_loopback(host or ""))
    require(safe, f"the token URL {url!r} must be https, because the client's secret is sent there")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_value(public: Public, value: bytes) -> bytes:
    """Return a value as it is stored; raise `BriefError` if it is invalid. No message contains the value."""
    require(len(value) <= MAX_VALUE_BYTES, f"the value has more than {MAX_VALUE_BYTES >> 10} KiB, the limit")
    if isinstance(public, Command):
        decode_argv(value)
        return value
    require(
        len(value) >= MIN_VALUE_BYTES,
        f"the value has fewer than {MIN_VALUE_BYTES} bytes; a shorter secret cannot be recognized in responses",
    )
    if isinstance(public, Totp):
        seed = b"".join(value.split()).replace(b"-", b"").rstrip(b"=").upper()
        require(len(decode_seed(seed)) >= _MIN_SEED_BYTES, f"the TOTP seed has fewer than {_MIN_SEED_BYTES} bytes")
        return seed
    check_text(value)
    return value


def check_text(value: bytes) -> None:
    """Raise `BriefError` for a value that would break a header: control characters, outer spaces, invalid UTF-8."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise BriefError("the value is not text in UTF-8") from None
    require(is_plain(text), "the value has control characters, such as a line break, which no header can contain")
    require(text == text.strip(), "the value starts or ends with a space, which headers do not preserve")


def is_plain(text: str) -> bool:
    """Return whether a text has no control characters, surrogates or line separators."""
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text)


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BriefError(otherwise)


def encode_argv(argv: Sequence[str]) -> bytes:
    value = json.dumps(list(argv)).encode()
    decode_argv(value)
    return value


def decode_argv(value: bytes) -> tuple[str, ...]:
    """Parse a command's arguments. The program must be an absolute path, so that no PATH is searched."""
    try:
        argv = json.loads(value)
    except ValueError:
        argv = None
    whole = isinstance(argv, list) and bool(argv) and all(isinstance(part, str) and "\0" not in part for part in argv)
    require(
        whole and str(argv[0]).startswith("/"), "a command must be an absolute path with arguments, written after `--`"
    )
    return tuple(argv)


def decode_seed(value: bytes) -> bytes:
    try:
        return base64.b32decode(value + b"=" * (-len(value) % 8))
    except (binascii.Error, ValueError):
        raise BriefError("the TOTP seed is not base32, which has the characters A to Z and 2 to 7 only") from None


_USUAL_TOTP = Totp()


def compute_totp_code(seed: bytes, at: float, kind: Totp = _USUAL_TOTP) -> str:
    """Return the one-time code for a time in seconds since the epoch (RFC 6238); `seed` is decoded."""
    digest = hmac.digest(seed, struct.pack(">Q", int(at) // kind.period), kind.algorithm)
    (number,) = struct.unpack_from(">I", digest, digest[-1] & 15)
    return str((number & 0x7FFFFFFF) % 10**kind.digits).zfill(kind.digits)
