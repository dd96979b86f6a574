"""Signed URLs of files: they allow reading or writing one path without a token."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Literal, Protocol, TypeVar

from hotdesk.api.e2b.responses import E2bError
from hotdesk.dataclass import dataclass

Act = Literal["read", "write"]
MAX_FAILURES, WINDOW_S = 20, 60.0
"""Wrong signatures of one address, to one sandbox or to those it does not name, within so many seconds."""
_MAX_ADDRESSES = 4096
"""Addresses whose wrong signatures are remembered."""


class TokenHolder(Protocol):
    """Something with an access token."""

    @property
    def token(self) -> str: ...


Holder = TypeVar("Holder", bound=TokenHolder)


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature that is sent instead of a token."""

    path: str
    act: Act
    username: str
    signature: str
    expiration: str

    def compute_signature(self, token: str) -> str:
        text = f"{self.path}:{self.act}:{self.username}:{token}"
        text += f":{self.expiration}" if self.expiration else ""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return "v1_" + base64.b64encode(digest).decode().rstrip("=")

    def is_by(self, token: str) -> bool:
        """Return whether a token signed it; the comparison takes constant time."""
        return bool(token) and hmac.compare_digest(self.compute_signature(token).encode(), self.signature.encode())


def check_token(shown: str, token: str) -> None:
    if not hmac.compare_digest(shown.encode(), token.encode()):
        raise E2bError(401, "unauthorized access, please provide a valid access token")


def read(query: Mapping[str, str], act: Act) -> Signed:
    signed = Signed(
        query.get("path", ""), act, query.get("username", ""), query.get("signature", ""),
        query.get("signature_expiration", ""),
    )  # fmt: skip
    if not signed.signature:
        raise E2bError(401, "missing signature query parameter")
    if ":" in signed.username:
        raise E2bError(400, "a username must not contain a colon")
    return signed


def find(signed: Signed, holders: Iterable[Holder]) -> Holder:
    """Return the holder whose token made the signature; all are tried, so that the time reveals nothing."""
    found = [one for one in list(holders) if signed.is_by(one.token)]
    if not found:
        raise E2bError(401, "invalid signature")
    check_expiry(signed)
    return found[0]


def check_expiry(signed: Signed) -> None:
    if not signed.expiration:
        return
    digits = signed.expiration
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise E2bError(401, "invalid signature")
    if int(digits) < time.time():
        raise E2bError(401, "signature is already expired")


@dataclass(slots=True)
class Tries:
    """The times of recent wrong signatures, by address."""

    failures: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)

    def check(self, address: str) -> None:
        recent = [when for when in self.failures.get(address, ()) if when > time.monotonic() - WINDOW_S]
        if len(recent) >= MAX_FAILURES:
            raise E2bError(429, "too many wrong signatures from this address; wait a minute")

    @contextmanager
    def limit_guesses(self, address: str) -> Iterator[None]:
        """Refuse an address with too many wrong signatures; another one counts."""
        self.check(address)
        try:
            yield
        except E2bError as e:
            if e.status == 401:
                self.note(address)
            raise

    def note(self, address: str) -> None:
        recent = [when for when in self.failures.pop(address, ()) if when > time.monotonic() - WINDOW_S]
        self.failures[address] = [*recent, time.monotonic()][-MAX_FAILURES:]
        while len(self.failures) > _MAX_ADDRESSES:
            self.failures.popitem(last=False)
