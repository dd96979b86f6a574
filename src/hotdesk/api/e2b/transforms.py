"""Headers that a program's network rules attach, as grants: plain values, secrets of the vault, workload tokens.

The door replaces a placeholder by its value: `${e2b.secrets.NAME}` by a secret of the tenant's vault,
`${e2b.identity.tokens.NAME}` by a token that identifies the sandbox. Text may stand around one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from hotdesk.brief.data import Grant, Scope, SecretPlace, WorkloadToken
from hotdesk.brief.grants import check_grant
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, make_printable

VAULT_PREFIX = "e2b-"
"""Prefix of E2B programs' secrets in the vault: placeholders cannot reach its other secrets."""
MAX_HEADERS = 64
VALUE = re.compile(r"[\x20-\x7e\x80-\xff]{1,8192}")
_PLACEHOLDER = re.compile(
    r"\$\{e2b\.(?:secrets\.(?:sec_)?(?P<secret>[A-Za-z0-9][A-Za-z0-9-]{0,59})"
    r"|identity\.tokens\.(?P<token>[^{}\x00-\x1f\x7f-\x9f]{1,200}))\}"
)
_MARK = "${e2b."
_BEARER = re.compile(r"(?i)bearer +")

Word = Annotated[str, Field(min_length=1, max_length=253)]
Tokens: TypeAlias = Mapping[str, WorkloadToken]
"""Workload tokens of a sandbox, by the names its program gave them."""


class LenientModel(BaseModel):
    """A part of a program's options; unknown fields, which newer programs send, are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Transform(LenientModel):
    headers: dict[Word, str] = {}


class Attached(LenientModel):
    """What is attached to requests to one host."""

    transform: Transform | None = None


Rules: TypeAlias = Mapping[str, Sequence[Attached]]


@dataclass(slots=True)
class Attachments:
    """The grants that network rules lead to, and the source of each value that is not in the vault."""

    grants: list[Grant] = field(default_factory=list)
    values: dict[str, bytes] = field(default_factory=dict, repr=False)
    tokens: dict[str, WorkloadToken] = field(default_factory=dict)


def attach(rules: Rules, tokens: Tokens) -> Attachments:
    headers = {(host.lower(), name.lower()): value for host, name, value in list_values(rules)}
    if len(headers) > MAX_HEADERS:
        raise BriefError(f"network rules can attach {MAX_HEADERS} headers at most")
    found = Attachments()
    for number, ((host, name), value) in enumerate(headers.items()):
        match = _find_placeholder(name, value)
        if match is None:
            secret, place = f"header-{number}", SecretPlace("header", name)
            found.values[secret] = value.encode("latin-1")
        else:
            place = _read_place(name, value[: match.start()], value[match.end() :])
            secret = _name_in_vault(match["secret"]) if match["secret"] else f"identity-{number}"
            if match["token"]:
                found.tokens[secret] = _find_token(match["token"], tokens)
        found.grants.append(check_grant(Grant(secret, host, places=(place,), foreign=True)))
    return found


def list_values(rules: Rules) -> Iterator[tuple[str, str, str]]:
    """Yield the headers of network rules: host, name, value."""
    for host, attached in rules.items():
        for each in attached:
            for name, value in (each.transform.headers if each.transform else {}).items():
                yield host, name, value


def _find_placeholder(name: str, value: str) -> re.Match[str] | None:
    """Return the placeholder in a header's value; `None` if it is plain text. Refuse what cannot be sent."""
    matches = list(_PLACEHOLDER.finditer(value))
    if not VALUE.fullmatch(value) or value.count(_MARK) != len(matches):
        raise BriefError(
            f"the value of header {make_printable(name[:60])!r} has a character that headers cannot contain, or an "
            "unknown placeholder; the placeholders are ${e2b.secrets.NAME} and ${e2b.identity.tokens.NAME}"
        )
    if len(matches) > 1:
        raise BriefError(f"the value of header {make_printable(name[:60])!r} has more than one placeholder; use one")
    return matches[0] if matches else None


def _read_place(name: str, before: str, after: str) -> SecretPlace:
    if name == "authorization" and _BEARER.fullmatch(before) and not after:
        return SecretPlace("bearer")
    return SecretPlace("header", name, before=before, after=after)


def _name_in_vault(secret: str) -> str:
    return VAULT_PREFIX + secret.lower()


def _find_token(name: str, tokens: Tokens) -> WorkloadToken:
    if name not in tokens:
        listed = ", ".join(sorted(tokens)) or "none"
        raise BriefError(
            f"`iam.tokens` of this sandbox has no token {make_printable(name[:60])!r}; its tokens: "
            f"{make_printable(listed[:200])}"
        )
    return tokens[name]


def list_secret_names(rules: Rules) -> set[str]:
    matches = (_PLACEHOLDER.search(value) for _, _, value in list_values(rules))
    return {match["secret"].lower() for match in matches if match is not None and match["secret"]}


def list_headers(scope: Scope) -> list[tuple[str, str, str]]:
    """Return the headers that a scope attaches, as a program would write them: host, name, value or placeholder."""
    headers = []
    for grant in scope.grants:
        place = grant.places[0]
        name = "authorization" if place.kind == "bearer" else place.name
        before = "Bearer " if place.kind == "bearer" else place.before
        if grant.secret in scope.tokens:
            text = f"${{e2b.identity.tokens.{scope.tokens[grant.secret].name}}}"
        elif grant.secret in scope.values:
            text = scope.values[grant.secret].decode("latin-1")
        elif grant.secret.startswith(VAULT_PREFIX):
            text = f"${{e2b.secrets.{grant.secret.removeprefix(VAULT_PREFIX)}}}"
        else:
            continue
        headers.append((grant.host, name, f"{before}{text}{place.after}"))
    return headers
