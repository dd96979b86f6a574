"""Hosts that a brief's job may reach, and the credentials it uses there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from hotdesk.brief.data import CLOSED, MOST_GRANTS, MOST_NAMES, MOST_RULES, Scope
from hotdesk.brief.fields import read_list
from hotdesk.brief.keys import format_example
from hotdesk.brief.value import BriefValue
from hotdesk.errors import BriefError

_ScopeEntry: TypeAlias = str | Mapping[str, object]
MakeScope: TypeAlias = Callable[[Iterable[_ScopeEntry], Iterable[_ScopeEntry], Mapping[str, str]], Scope]
"""Reads rules, grants and names: the very function the command line has, so that the same words mean the same."""


def read_scope(brief: BriefValue, make_scope: MakeScope) -> Scope:
    """Read where the job may go; a brief that says nothing of it reaches nothing."""
    rules, grants, names = brief.get("egress", []), brief.get("grants", []), brief.get("names", {})
    read_list(rules, "egress", MOST_RULES, "lines or tables", (str, dict))
    read_list(grants, "grants", MOST_GRANTS, "lines or tables", (str, dict))
    leads = list(names.value.values()) if isinstance(names.value, dict) else [None]
    if len(leads) > MOST_NAMES or not all(isinstance(each, str) for each in leads):
        raise names.make_error(
            f"names must be a table of at most {MOST_NAMES} entries; write {format_example(names, 'names')}"
        )
    if not rules.value and not grants.value and not names.value:
        return CLOSED
    try:
        return make_scope(rules.value, grants.value, names.value)
    except BriefError as e:
        raise _find_culprit(rules, grants, names, make_scope).make_error(str(e)) from None


def _find_culprit(rules: BriefValue, grants: BriefValue, names: BriefValue, make_scope: MakeScope) -> BriefValue:
    """Return what a scope fails by: the first that fails by itself."""
    for rule in rules.list_items():
        if fails(make_scope, [rule.value], [], {}):
            return rule
    for name, lead in names.value.items():
        if fails(make_scope, [], [], {name: lead}):
            return names.get(name)
    for grant in grants.list_items():
        if fails(make_scope, rules.value, [grant.value], {}):
            return grant
    return rules


def fails(make_scope: MakeScope, rules: list[_ScopeEntry], grants: list[_ScopeEntry], names: dict[str, str]) -> bool:
    try:
        make_scope(rules, grants, names)
    except BriefError:
        return True
    return False
