"""Scopes as JSON: one canonical form for digests and for other processes, parsed strictly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache

from hotdesk.brief.data import Grant, Rule, Scope
from hotdesk.brief.egress_proxy import check_proxy
from hotdesk.brief.grants import check_grant
from hotdesk.brief.names import canonicalize_name, split_authority
from hotdesk.brief.rules import check_rule
from hotdesk.errors import BriefError, make_printable
from hotdesk.strict import StrictError, read

_RULE_FIELDS = tuple(Rule.__dataclass_fields__)
_MAX_KNOWN_RULES = 1024
"""Rules whose canonical form is remembered: most scopes have the rules of earlier ones."""
_MAX_TOKEN_TEXT = 1024
"""Maximum characters each of a workload token's name, audience and issuer."""


def scope_json(scope: Scope) -> str:
    return format_canonical_json(describe_scope(scope))


def describe_scope(scope: Scope) -> dict[str, object]:
    """Return a scope as values for JSON, as `parse_scope` reads them, without the secrets."""
    return {
        "rules": [_describe_rule(rule) for rule in scope.rules],
        "grants": [_describe_grant(grant) for grant in scope.grants],
        "names": dict(scope.names),
        "may_ask": scope.may_ask,
        **({"anywhere": True} if scope.anywhere else {}),
        **({"tokens": {name: asdict(each) for name, each in scope.tokens.items()}} if scope.tokens else {}),
        **({"proxy": asdict(scope.proxy)} if scope.proxy else {}),
    }


def compute_digest(thing: Scope | Rule) -> str:
    """Return the hexadecimal SHA-256 of a scope or a rule in canonical JSON."""
    text = scope_json(thing) if isinstance(thing, Scope) else format_canonical_json(_describe_rule(thing))
    return hashlib.sha256(text.encode()).hexdigest()


def parse_scope(value: object) -> Scope:
    """Parse a scope; refuse unknown or mistyped fields and entries that are not in canonical form."""
    if isinstance(value, dict) and "values" in value:
        raise _make_scope_error("it contains secrets")
    try:
        scope = read(Scope, value)
    except StrictError as e:
        raise _make_scope_error(str(e)) from None
    for rule in scope.rules:
        if not _is_canonical(rule):
            raise _make_form_error(rule)
    for grant in scope.grants:
        if check_grant(grant) != grant:
            raise _make_form_error(grant)
    _require_names(scope.names)
    _require_tokens(scope)
    if scope.proxy is not None and check_proxy(scope.proxy) != scope.proxy:
        raise _make_scope_error("the egress proxy is not in canonical form")
    return scope


def format_canonical_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _describe_rule(rule: Rule) -> dict[str, object]:
    """Return a rule's fields, none of which needs the copy that `asdict` makes in twenty times as long."""
    return {name: getattr(rule, name) for name in _RULE_FIELDS}


def _describe_grant(grant: Grant) -> dict[str, object]:
    """Return a grant as plain values, without later fields that are empty, so that digests stay the same."""
    values = asdict(grant)
    for place in values["places"]:
        for name in ("before", "after"):
            if not place[name]:
                del place[name]
    return {name: value for name, value in values.items() if value or name not in ("allow_headers", "allow_fields")}


@lru_cache(_MAX_KNOWN_RULES)
def _is_canonical(rule: Rule) -> bool:
    return check_rule(rule) == rule


def _make_form_error(thing: Rule | Grant) -> BriefError:
    """Return the error for an entry that is not in canonical form, because another form has another digest."""
    return _make_scope_error(f"{make_printable(str(thing)[:200])} is not in canonical form")


def _require_names(names: Mapping[str, str]) -> None:
    """Refuse names that do not map to a host and port."""
    for name, upstream in names.items():
        try:
            right = canonicalize_name(name) == name and split_authority(upstream)[1] is not None
        except ValueError:
            right = False
        if not right:
            raise _make_scope_error(
                f"the name {make_printable(name[:80])!r} is not a host name, or has no address host:port"
            )


def _require_tokens(scope: Scope) -> None:
    """Refuse tokens without a grant, or with texts that are not valid in a token."""
    granted = {grant.secret for grant in scope.grants}
    for name, token in scope.tokens.items():
        texts = (token.name, token.audience, token.issuer)
        if name not in granted or not all(each.isprintable() and 0 < len(each) <= _MAX_TOKEN_TEXT for each in texts):
            raise _make_scope_error(
                f"the workload token {make_printable(name[:80])!r} has no grant, or its name, audience or issuer is "
                f"empty, not printable or longer than {_MAX_TOKEN_TEXT} characters"
            )


def _make_scope_error(why: str) -> BriefError:
    return BriefError(f"the scope cannot be read: {why}; it must be written by `scope_json` of the same version")
