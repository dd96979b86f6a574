"""Hosts that a brief's job may reach, and the credentials it uses there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from hotdesk.brief.data import CLOSED, MOST_GRANTS, MOST_NAMES, MOST_RULES, Scope
from hotdesk.brief.faults import BriefFaultsError
from hotdesk.brief.fields import read_list
from hotdesk.brief.grants import parse_grant
from hotdesk.brief.keys import explain_place, format_example
from hotdesk.brief.value import BriefValue
from hotdesk.errors import BriefError

_ScopeEntry: TypeAlias = str | Mapping[str, object]
_Entry: TypeAlias = tuple[BriefValue, tuple[list[_ScopeEntry], list[_ScopeEntry], dict[str, str]]]
MakeScope: TypeAlias = Callable[[Iterable[_ScopeEntry], Iterable[_ScopeEntry], Mapping[str, str]], Scope]
"""Builds a scope from rules, grants and names; the command line uses the same function."""


def read_scope(brief: BriefValue, make_scope: MakeScope) -> Scope:
    """Read the scope of the job; a brief without network fields has no network access."""
    rules, grants, names = brief.get("egress", []), brief.get("grants", []), brief.get("names", {})
    earlier = len(brief.faults)
    if isinstance(rules.value, dict):
        raise BriefFaultsError([_make_table_error(rules), *_find_table_faults(rules, make_scope)])
    none: list[BriefValue] = []
    for field, key, most in ((rules, "egress", MOST_RULES), (grants, "grants", MOST_GRANTS)):
        brief.attempt(partial(read_list, field, key, most, "lines or tables", (str, dict)), none)
    leads = list(names.value.values()) if isinstance(names.value, dict) else [None]
    if len(leads) > MOST_NAMES or not all(isinstance(each, str) for each in leads):
        remedy = _explain_names(names) or f"write {format_example(names, 'names')}"
        raise names.make_error(
            f"names must be a table of at most {MOST_NAMES} host names, each with an address as host:port, not "
            f"{names.show()}; {remedy}"
        )
    if len(brief.faults) > earlier or (not rules.value and not grants.value and not names.value):
        return CLOSED
    try:
        return make_scope(rules.value, grants.value, names.value)
    except BriefError as e:
        raise BriefFaultsError(_find_faults(rules, grants, names, make_scope) or [rules.make_error(str(e))]) from None


def _make_table_error(rules: BriefValue) -> ValueError:
    """Return the error of `[egress]`, which people write because most of a brief's settings are tables."""
    example = format_example(rules, "egress")
    if rules.form != "toml":
        return rules.make_error(f"egress must be a list of rules, not a table; write {example}")
    return rules.make_error(
        "egress is a list of rules, not a table: instead of [egress], write the list above the first line of the "
        f"brief that begins with `[`, as {example}"
    )


def _find_table_faults(table: BriefValue, make_scope: MakeScope) -> list[ValueError]:
    """List the faults of the rules that someone wrote into a table `egress`."""
    lists = [table.get(key) for key in table.value if isinstance(table.value[key], list)]
    rules = [rule for each in lists for rule in each.list_items() if isinstance(rule.value, str | dict)]
    return _try_each([(rule, ([rule.value], [], {})) for rule in rules], make_scope)


def _explain_names(names: BriefValue) -> str:
    """Return where fields belong that stand in the table `names`; empty: there are none."""
    found = names.value if isinstance(names.value, dict) else {}
    hints = (explain_place(names.get(key), key) for key, value in found.items() if not isinstance(value, str))
    return next((hint.removeprefix("; ") for hint in hints if hint), "")


def _find_faults(rules: BriefValue, grants: BriefValue, names: BriefValue, make_scope: MakeScope) -> list[ValueError]:
    """List the faults of single entries. Whether a rule admits a grant's host is tested only if all rules are valid."""
    entries: list[_Entry] = [(rule, ([rule.value], [], {})) for rule in rules.list_items()]
    entries += [(names.get(name), ([], [], {name: lead})) for name, lead in names.value.items()]
    faults = _try_each(entries, make_scope)
    if not faults:
        return _try_each([(grant, (rules.value, [grant.value], {})) for grant in grants.list_items()], make_scope)
    return faults + _try_each([(grant, ([], [grant.value], {})) for grant in grants.list_items()], _parse_grants)


def _parse_grants(_: Iterable[_ScopeEntry], grants: Iterable[_ScopeEntry], __: Mapping[str, str]) -> Scope:
    """Raise `BriefError` for a grant that is not written correctly, whatever the rules admit."""
    for grant in grants:
        if isinstance(grant, str):
            parse_grant(grant)
    return CLOSED


def _try_each(entries: list[_Entry], make_scope: MakeScope) -> list[ValueError]:
    faults = []
    for field, parts in entries:
        try:
            make_scope(*parts)
        except BriefError as e:
            faults.append(field.make_error(str(e)))
    return faults
