"""The hash chain of events: each event is hashed onto the one before, and the last of every commit is signed. Pure."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError
from hotdesk.event import Event, from_json

START = b"\0" * 32
"""The hash before the first event of a chain."""
_CHAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ACTOR = re.compile(r"[a-z][a-z0-9-]{0,31}")
HEAD = re.compile(
    rf"hotdesk-head 1 ({_CHAIN.pattern}) ([1-9][0-9]{{0,17}}) ([0-9a-f]{{64}}) ([0-9a-f]{{128}})", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Row:
    """One stored event."""

    id: int
    """Its number among all events of the file, without gaps."""
    chain: str
    seq: int
    """Its number in its chain."""
    at: int
    """Milliseconds since the epoch."""
    actor: str
    """The sender of the event, identified by its connection."""
    name: str
    version: int
    data: str
    """Its fields as JSON."""
    hash: bytes
    signature: bytes | None
    """Signature of the chain up to this event. `None`: it is not the last event of a commit."""

    def read_event(self) -> Event:
        """Parse the event; raise `ValueError` if this version does not know it."""
        return from_json(self.name, self.data, self.version)


@dataclass(frozen=True, slots=True)
class Head:
    """The signed end of a chain. A copy stored elsewhere reveals that the chain was cut or rewritten."""

    chain: str
    seq: int
    hash: bytes
    signature: bytes

    def __str__(self) -> str:
        return f"{encode_statement(self.chain, self.seq, self.hash).decode()} {self.signature.hex()}"


def parse_head(text: str) -> Head:
    found = HEAD.fullmatch(text.strip())
    if found is None:
        raise BriefError(f"{text[:80]!r} is not a valid head of a chain; use a whole line of `hotdesk journal head`")
    chain, seq, digest, signature = found.groups()
    return Head(chain, int(seq), bytes.fromhex(digest), bytes.fromhex(signature))


def encode_statement(chain: str, seq: int, digest: bytes) -> bytes:
    return f"hotdesk-head 1 {chain} {seq} {digest.hex()}".encode("utf-8", "surrogatepass")


def compute_digest(row: Row, before: Row | None) -> bytes:
    """Hash an event onto the one before and its signature, so that no signature can be removed later.

    Every field is preceded by its length, so that no two events are encoded alike.
    """
    link = (START, b"") if before is None else (before.hash, before.signature or b"")
    numbers = [b"%d" % number for number in (row.id, row.seq, row.at, row.version)]
    texts = [text.encode("utf-8", "surrogatepass") for text in (row.chain, row.actor, row.name, row.data)]
    parts = [len(part).to_bytes(8, "big") + part for part in (*link, *numbers, *texts)]
    return hashlib.sha256(b"".join([b"hotdesk-journal 1\n", *parts])).digest()


@lru_cache(1024)
def check_names(chain: str, actor: str) -> None:
    if not _CHAIN.fullmatch(chain):
        raise BriefError(f"{chain[:80]!r} is not a valid chain name; use letters, digits, `.`, `_` and `-`")
    if not _ACTOR.fullmatch(actor):
        raise BriefError(f"{actor[:80]!r} is not a valid actor name; use at most 32 lower-case letters, digits and `-`")
