"""Live grants as the door knows them, and the decision on each use. Data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, Protocol, TypeAlias

from hotdesk.brief import Grant, SecretPlace
from hotdesk.dataclass import dataclass
from hotdesk.door.secrets.outgoing import AUTHORIZATION, Slot, extract_placeholder, get_slot
from hotdesk.door.secrets.placeholder import PREFIX, name_in
from hotdesk.door.secrets.signature import SigV4Signer, parse_credential

Kind: TypeAlias = Literal["token", "basic", "oauth2", "totp", "command", "sigv4", "identity"]


@dataclass(frozen=True, slots=True)
class LiveGrant:
    """A live grant as the door knows it, without its value."""

    id: str
    grant: Grant
    placeholder: bytes
    kind: Kind = "token"
    signer: SigV4Signer | None = None
    """For a signing key, which is never sent: what it may sign."""

    @property
    def places(self) -> tuple[SecretPlace, ...]:
        """Return where the secret goes: as granted, or else the default of its kind. A one-time code has no default."""
        if self.kind == "sigv4":
            return (SecretPlace("bearer", swap=True),)
        if self.grant.places or self.kind == "totp":
            return self.grant.places
        return (SecretPlace("basic" if self.kind == "basic" else "bearer"),)

    def is_written(self, slot: Slot, value: bytes) -> bool:
        """Return whether a part of a head consists of the placeholder or, for a signing key, is signed with it."""
        if self.kind == "sigv4":
            key = parse_credential(value) if self.signer and slot == AUTHORIZATION else None
            return key is not None and key[0] == self.placeholder and value.count(PREFIX) == 1
        return extract_placeholder(slot, value) == self.placeholder


class Returning(Protocol):
    """Tokens that an upstream issued and the desk may send back: see `issued_tokens`."""

    def find_cookie(self, name: bytes, placeholder: bytes) -> bytes | None:
        """Return the value of the cookie with this name, if this placeholder stands for one."""

    def find_bearer(self, placeholder: bytes) -> bytes | None:
        """Return the token this placeholder stands for."""

    def knows(self, name: bytes, value: bytes) -> bool:
        """Return whether the host itself set a cookie with this name and value."""


@dataclass(frozen=True, slots=True)
class Sign:
    """An event that no honest desk causes."""

    what: Literal["placeholder", "foreign"]
    secret: str
    """The name in the placeholder; empty for foreign credentials."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not sent, with the reason."""

    reason: str
    signs: tuple[Sign, ...] = ()


@dataclass(frozen=True, slots=True)
class SecretUse:
    """One secret at one place."""

    live_grant: LiveGrant
    place: SecretPlace

    def __str__(self) -> str:
        kind, name = get_slot(self.place)
        return f"{self.live_grant.grant.secret} in {kind} {name}"


def get_bare_value(grant: LiveGrant, value: bytes) -> bytes:
    """Return the value that a placeholder stands for when it is alone: for a user and password, the password."""
    return value.partition(b":")[2] if grant.kind == "basic" else value


def make_signs(found: Collection[bytes]) -> tuple[Sign, ...]:
    return tuple(Sign("placeholder", name) for name in sorted({name_in(one) for one in found}))
