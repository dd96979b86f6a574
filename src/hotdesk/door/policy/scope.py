"""Parse a scope from lines and tables, the same way for the command line and for a brief."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from hotdesk.brief.data import Grant, Rule, Scope, SecretPlace
from hotdesk.brief.grants import check_grant, parse_grant
from hotdesk.brief.grants import read_words as read_grant_words
from hotdesk.brief.names import bracket_ipv6, canonicalize_name, split_authority
from hotdesk.brief.remedy import RemedyError
from hotdesk.brief.rules import add_example, split_words
from hotdesk.door.policy.policy import Policy
from hotdesk.door.policy.presets import PRESETS, parse_rules
from hotdesk.errors import BriefError, make_printable

VERDICTS = ("allow", "deny", "ask", "tunnel")
TABLE = '{secret = "erp-token", host = "erp.example.test", places = ["bearer"]}'


def scope_of(
    rules: Iterable[str | Mapping[str, object]],
    grants: Iterable[str | Mapping[str, object]] = (),
    names: Mapping[str, str] | None = None,
    may_ask: bool = True,
) -> Scope:
    """Build a scope; raise `BriefError` if it is invalid."""
    read = dict.fromkeys(rule for entry in rules for rule in read_rule_or_preset(entry))
    scope = Scope(tuple(read), tuple(map(read_grant, grants)), read_names(names or {}), may_ask)
    _check_reach(scope)
    return scope


def read_rule_or_preset(entry: str | Mapping[str, object]) -> tuple[Rule, ...]:
    """Parse a rule or a preset; refuse a preset after a verdict, because it would be taken for a host of that name."""
    words = split_words(entry) if isinstance(entry, str) else []
    if len(words) == 2 and words[0] in VERDICTS and words[1] in PRESETS:
        raise BriefError(
            f"{words[1]} is a preset, and presets can only be allowed: --allow {words[1]}; after {words[0]} write hosts"
        )
    return parse_rules(entry)


def read_grant(entry: str | Mapping[str, object]) -> Grant:
    if isinstance(entry, str):
        return parse_grant(entry)
    try:
        return check_grant(read_table(entry))
    except ValueError as e:
        shown = make_printable(repr(dict(entry))[:200])
        raise BriefError(f"grant {shown}: {add_example(e, TABLE)}") from None


def read_table(table: Mapping[str, object]) -> Grant:
    _check_fields("grant", Grant, table)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    if not isinstance(values.get("secret"), str) or not isinstance(values.get("host"), str):
        raise ValueError("`secret` and `host` are required, both as strings")
    if isinstance(places := values.get("places"), tuple):
        values["places"] = tuple(_read_secret_place(place) for place in places)
    return Grant(**values)  # type: ignore[arg-type]


def _check_fields(what: str, kind: type[Grant] | type[SecretPlace], table: Mapping[str, object]) -> None:
    names = {field.name for field in fields(kind)}
    if unknown := sorted(str(name) for name in table if name not in names):
        shown = make_printable(unknown[0][:80])
        raise RemedyError(f"{shown!r} is not a field of a {what}; the fields are {', '.join(sorted(names))}")


def _read_secret_place(entry: object) -> SecretPlace:
    if isinstance(entry, Mapping):
        _check_fields("place", SecretPlace, entry)
        return SecretPlace(**{"kind": "", **entry})
    found = read_grant_words(["one@host.test", *split_words(str(entry))])
    if len(found.places) != 1 or replace(found, places=()) != Grant("one", "host.test"):
        shown = make_printable(str(entry)[:80])
        raise RemedyError(f"{shown!r} is not a place for a secret; write 'bearer' or 'header=X-Key'")
    return found.places[0]


def read_names(names: Mapping[str, str]) -> dict[str, str]:
    return {lead[0]: lead[1] for lead in (_check_lead(str(name), str(upstream)) for name, upstream in names.items())}


def _check_lead(name: str, upstream: str) -> tuple[str, str]:
    part = f"the name {make_printable(name[:80])!r}"
    try:
        host = canonicalize_name(name)
        part = f"the address {make_printable(upstream[:80])!r}"
        if split_authority(upstream)[1] is None:
            raise ValueError("has no port")
    except ValueError as e:
        raise BriefError(f"{part} {e}; write NAME=HOST:PORT, as in erp.test=127.0.0.1:8443") from None
    return host, upstream


def _check_reach(scope: Scope) -> None:
    """Refuse a secret for a host that no rule admits: rules are never added implicitly."""
    policy = Policy(replace(rule, step="") for rule in scope.rules if not rule.tunnel)
    for grant in scope.grants:
        if not policy.can_reach("https", grant.host, grant.port):
            host = bracket_ipv6(grant.host) if grant.port == 443 else f"https://{bracket_ipv6(grant.host)}:{grant.port}"
            raise BriefError(
                f"the secret {grant.secret} is granted for {grant.host}, but no rule admits that host; change the "
                f'grant, or allow it with --allow {host!r}, or with egress = ["{host}"] in a brief'
            )
