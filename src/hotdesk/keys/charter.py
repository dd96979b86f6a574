"""A desk's charter for the door: its rules and secrets, made from a scope and the vault."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import UTC, datetime, timedelta

from hotdesk.brief import CLOSED, Grant, Scope, describe_scope
from hotdesk.dataclass import dataclass
from hotdesk.door import canary
from hotdesk.door.canary import Canary
from hotdesk.door.http.ca import CertificateAuthority, new_authority
from hotdesk.door.secrets.placeholder import make_placeholder
from hotdesk.drive.signing import Signer
from hotdesk.errors import BriefError
from hotdesk.vault import Basic, OAuth2, Secret, SigV4, Vault, VaultEntry

_MAX_AUTHORITY_LIFE = timedelta(days=30)
"""The longest life of a desk's certificate authority; a desk's own deadline is usually earlier."""
NOTHING: Mapping[str, bytes] = {}
_PRINTED = ("totp", "command")
"""Kinds whose value is made for each use: the door gets neither the seed nor the program."""

_KEY_VARIABLE = "AWS_ACCESS_KEY_ID"
_SIGNING = {
    "AWS_SECRET_ACCESS_KEY": "signed-anew-outside",
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
}
"""Variables that SDKs need beside the placeholder: an arbitrary signing key, and the setting to sign whole bodies."""


@dataclass(frozen=True, slots=True)
class Granted:
    """One secret, granted to one desk."""

    id: str
    grant: Grant
    kind: str
    placeholder: str
    values: dict[str, str] = field(repr=False)
    """Values that the door inserts, in base64."""
    until: float | None
    """Expiry in seconds since the epoch, or `None` if it has none."""


@dataclass(slots=True)
class Charter:
    """One desk's rules, secrets and certificate authority, as its door gets them."""

    desk: str
    scope: Scope
    authority: CertificateAuthority
    granted: list[Granted]
    ceiling: Sequence[str] = ()
    approval_seconds: float = 120.0
    signer: Signer | None = None
    step: str = ""
    sent: bool = False
    proven_at: float = -math.inf
    """Monotonic time of the end of its self-test."""
    scopes: int = 0
    """How often its scope was changed."""
    proxy_password: bytes = field(default=b"", repr=False)
    """The password for its scope's egress proxy."""
    sync: bool = False
    """Whether its door must wait until the server of this node has the record of each request."""
    allowed: tuple[str, ...] = ()
    """Rules that a person allowed in addition to the scope. They override neither a deny nor the operator's ceiling."""

    def is_ready(self) -> bool:
        """Return whether its desk is tested but has no scope yet: a desk of the pool, waiting for a claim."""
        return self.scope == CLOSED and not self.granted

    def mark_sent(self) -> bool:
        """Mark the charter as sent to a door; return whether a door had it before, and may have used it."""
        before, self.sent = self.sent, True
        return before

    def drop(self, secret: str) -> None:
        self.granted = [one for one in self.granted if secret not in ("", one.grant.secret)]

    def sign_identities(self) -> dict[str, str]:
        """Return signed statements of desk and step, by grant id, for the grants whose host requires them."""
        return {one.id: self.sign_identity(one.grant) for one in self.granted if one.grant.identity}

    def sign_identity(self, one: Grant) -> str:
        """Sign desk and step for one host; return the claims and the signature, each in base64url."""
        assert self.signer is not None
        claims = {"desk": self.desk, "step": self.step, "host": one.host, "at": int(time.time())}
        body = json.dumps(claims, separators=(",", ":")).encode()
        signed = self.signer.sign(b"hotdesk-identity 1 " + body)
        return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (body, signed))

    def build_message(self) -> dict[str, object]:
        return {
            "charter": self.desk,
            "scope": describe_scope(self.scope),
            "ceiling": list(self.ceiling),
            "allowed": list(self.allowed),
            "approval_seconds": self.approval_seconds,
            "step": self.step,
            "sync": self.sync,
            "resumed": self.mark_sent(),
            "identities": self.sign_identities(),
            "proxy_password": encode(self.proxy_password),
            "certificate": self.authority.certificate_pem.decode(),
            "key": self.authority.key_pem.decode(),
            "grants": [
                {
                    "id": one.id,
                    "grant": asdict(one.grant),
                    "kind": one.kind,
                    "placeholder": one.placeholder,
                    "values": one.values,
                    "until": one.until,
                }
                for one in self.granted
            ],
        }

    def build_environment(self) -> dict[str, str]:
        variables = {one.grant.env: one.placeholder for one in self.granted if one.grant.env}
        signs = any(one.kind == "sigv4" and one.grant.env == _KEY_VARIABLE for one in self.granted)
        return {**_SIGNING, **variables} if signs else variables


def _make_brought_grant(number: str, requested: Grant, value: bytes) -> Granted:
    until = None if requested.seconds is None else time.time() + requested.seconds
    return Granted(number, requested, "token", make_placeholder(requested.secret), {"value": encode(value)}, until)


def grant(vault: Vault, number: int | str, requested: Grant) -> Granted:
    entry, secret = vault.take(requested.secret)
    if entry.kind == "totp" and not requested.places:
        raise BriefError(
            f"the secret {requested.secret} is a one-time code: its grant must name the place where "
            "the code is inserted, such as form=code:POST:/login"
        )
    if entry.kind == "sigv4" and requested.places:
        raise BriefError(
            f"the secret {requested.secret} signs requests and is never sent: remove the place from its grant"
        )
    until = None if requested.seconds is None else time.time() + requested.seconds
    return Granted(
        str(number), requested, entry.kind, make_placeholder(requested.secret), _build_values(entry, secret), until
    )


def _grant_token(number: str, requested: Grant) -> Granted:
    """Grant a workload token; its value is made for each use."""
    return Granted(number, requested, "identity", make_placeholder(requested.secret), {}, None)


def grant_all(
    vault: Vault | None,
    requested: Sequence[Grant],
    values: Mapping[str, bytes] = NOTHING,
    scopes: int = 0,
    tokens: Collection[str] = (),
) -> list[Granted]:
    """Take the secrets of one desk. A secret that several steps use has one placeholder, because its variable holds
    only one.

    No two grants of a desk ever have the same id, however often its scope is changed.
    """
    ids = [f"{scopes}.{number}" if scopes else str(number) for number in range(len(requested))]
    granted: list[Granted] = []
    for id, one in zip(ids, requested, strict=True):
        if one.secret in tokens:
            granted.append(_grant_token(id, one))
        elif one.secret in values:
            granted.append(_make_brought_grant(id, one, values[one.secret]))
        else:
            assert vault is not None
            granted.append(grant(vault, id, one))
    placeholders = {replace(one.grant, step=""): one.placeholder for one in granted}
    return [replace(one, placeholder=placeholders[replace(one.grant, step="")]) for one in granted]


def grant_canary() -> tuple[Granted, Canary]:
    """Make the secret for the self-test of a desk's door; return its grant, and the part its owner may know."""
    value = secrets.token_urlsafe(36).encode()
    placeholder = make_placeholder(canary.GRANT.secret)
    granted = Granted("canary", canary.GRANT, "token", placeholder, {"value": encode(value)}, None)
    return granted, Canary(placeholder, hashlib.sha256(value).hexdigest())


def _build_values(entry: VaultEntry, secret: Secret) -> dict[str, str]:
    if entry.kind in _PRINTED:
        return {}
    fields: dict[str, str] = {"value": encode(secret.get_bytes())}
    match entry.public:
        case Basic(user):
            fields["value"] = encode(user.encode() + b":" + secret.get_bytes())
        case OAuth2(url, client, scope):
            fields |= {"token_url": url, "client_id": client, "scope": scope}
        case SigV4(key_id, service, region, bucket):
            fields |= {"key_id": key_id, "service": service, "region": region, "bucket": bucket}
    return fields


def encode(value: bytes) -> str:
    return base64.b64encode(value).decode()


def make_authority(desk: str, seconds: float) -> CertificateAuthority:
    """Make a desk's certificate authority, valid for little longer than the desk's deadline."""
    life = min(_MAX_AUTHORITY_LIFE, max(timedelta(hours=1), timedelta(seconds=seconds + 600)))
    return new_authority(desk, datetime.now(UTC), life)
