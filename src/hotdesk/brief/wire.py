"""Scopes as JSON: one canonical form to hash and to carry across a process border, read back strictly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, TypeVar

from hotdesk.brief.data import Grant, Rule, Scope, SecretPlace
from hotdesk.brief.grants import check_grant
from hotdesk.brief.names import canonical_name, split_authority
from hotdesk.brief.rules import check_rule
from hotdesk.errors import BriefError, printable

MOST_RULES = 1000
MOST_GRANTS = 100
MOST_NAMES = 100

Thing = TypeVar("Thing", Rule, Grant, SecretPlace)


def scope_json(scope: Scope) -> str:
    """Write a scope as canonical JSON."""
    return canonical_json({**asdict_shallow(scope), "names": dict(scope.names)})


def digest(thing: Scope | Rule) -> str:
    """Give the SHA-256 of a scope or a rule in canonical JSON, in hexadecimal."""
    text = scope_json(thing) if isinstance(thing, Scope) else canonical_json(asdict(thing))
    return hashlib.sha256(text.encode()).hexdigest()


def parse_scope(told: object) -> Scope:
    """Read a scope from what JSON gave; anything unknown, mistyped or not canonical is refused."""
    values = fields_of(told, "scope", Scope)
    scope = Scope(
        rules=tuple(canonical(read_rule(each), check_rule) for each in listed(values, "rules", MOST_RULES)),
        grants=tuple(canonical(read_grant(each), check_grant) for each in listed(values, "grants", MOST_GRANTS)),
        names=read_names(values.get("names", {})),
        may_ask=values.get("may_ask", True),
        anywhere=values.get("anywhere", False),
    )
    if not isinstance(scope.may_ask, bool) or not isinstance(scope.anywhere, bool) or "values" in values:
        raise wrong("may_ask or anywhere is neither true nor false, or there are secrets in it")
    return scope


def canonical_json(value: object) -> str:
    """Write a value as JSON in one form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def asdict_shallow(scope: Scope) -> dict[str, object]:
    """Give a scope as plain values; its names are any mapping, which `asdict` would copy by its type."""
    return {
        "rules": [asdict(rule) for rule in scope.rules],
        "grants": [grant_values(grant) for grant in scope.grants],
        "may_ask": scope.may_ask,
        **({"anywhere": True} if scope.anywhere else {}),
    }


def grant_values(grant: Grant) -> dict[str, object]:
    """Give a grant as plain values; lists that older versions did not have only where there is something in them."""
    values = asdict(grant)
    return {name: value for name, value in values.items() if value or name not in ("allow_headers", "allow_fields")}


def fields_of(told: object, what: str, kind: type[Any]) -> dict[str, Any]:
    """Give the fields of an object, if they are those of its kind."""
    known = {field.name: field.default is MISSING and field.default_factory is MISSING for field in fields(kind)}
    if not isinstance(told, dict) or any(name not in known for name in told):
        raise wrong(f"a {what} is no object, or has a field it does not know")
    if lacking := [name for name, needed in known.items() if needed and name not in told]:
        raise wrong(f"a {what} lacks its {lacking[0]}")
    return told


def listed(values: Mapping[str, Any], name: str, most: int) -> list[object]:
    """Give a list out of an object."""
    value = values.get(name, [])
    if not isinstance(value, list) or len(value) > most:
        raise wrong(f"{name} is no list of at most {most}")
    return value


def tuples(value: Any) -> Any:
    """Turn lists into tuples, all the way down."""
    return tuple(tuples(each) for each in value) if isinstance(value, list) else value


def read_rule(told: object) -> Rule:
    """Read one rule."""
    return Rule(**{name: tuples(value) for name, value in fields_of(told, "rule", Rule).items()})


def read_grant(told: object) -> Grant:
    """Read one grant."""
    values = {name: tuples(value) for name, value in fields_of(told, "grant", Grant).items()}
    places = listed(told, "places", 16) if isinstance(told, dict) else []
    values["places"] = tuple(SecretPlace(**fields_of(place, "place", SecretPlace)) for place in places)
    return Grant(**values)


def canonical(thing: Thing, check: Callable[[Thing], Thing]) -> Thing:
    """Give back what is in canonical form already: another form would have another digest."""
    if check(thing) != thing:
        raise wrong(f"{printable(str(thing)[:200])} is not in canonical form")
    return thing


def read_names(told: object) -> dict[str, str]:
    """Read where the operator leads names."""
    if not isinstance(told, dict) or len(told) > MOST_NAMES:
        raise wrong(f"names is no object of at most {MOST_NAMES}")
    for name, upstream in told.items():
        try:
            right = canonical_name(name) == name and split_authority(upstream)[1] is not None
        except (ValueError, TypeError, AttributeError):
            right = False
        if not right:
            raise wrong(f"the name {printable(str(name)[:80])!r} does not lead to a host:port")
    return dict(told)


def wrong(why: str) -> BriefError:
    """Say what is wrong with a scope."""
    return BriefError(f"the scope cannot be read: {why}; it is written by `scope_json` of the same version")
