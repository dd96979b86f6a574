"""Decides whether a brief's rules fully cover a plan's rule. No I/O; if unsure, the answer is no.

A rule is covered by one that admits every request it admits, unless a deny or ask rule applies to some of them. A
narrower rule takes precedence over a wider one, so with `read example.test` and `deny example.test/data/*`, adding
`read example.test/data/secret` would bypass the deny rule. Such a rule is not covered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeAlias, TypeVar
from urllib.parse import unquote_plus

from hotdesk.brief.data import ANY, READ, Rule
from hotdesk.brief.names import is_address
from hotdesk.brief.paths import compile_glob, compile_value, list_readings
from hotdesk.brief.rules import PORTS, check_rule
from hotdesk.errors import BriefError

COMMON = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())
"""Methods that `write` certainly admits."""
_Rank: TypeAlias = tuple[tuple[int, int], tuple[object, ...]]
_Query: TypeAlias = tuple[tuple[str, str], ...] | None
_Limit = TypeVar("_Limit", int | None, float | None)


def find_cover(rule: Rule, rules: Iterable[Rule]) -> Rule | None:
    """Return the rule that fully covers another, for whatever step; `None` if there is none or it is uncertain."""
    candidates = tuple(rules)
    for each in sorted((each for each in candidates if covers(each, rule)), key=rank_rule, reverse=True):
        if not any(_is_undone(rule, each, other) for other in candidates):
            return each
    return None


def covers(wide: Rule, narrow: Rule) -> bool:
    """Return whether a rule, taken alone, certainly admits or asks for every request that another does."""
    if "deny" in (wide.verdict, narrow.verdict) or wide.tunnel != narrow.tunnel:
        return False
    return (
        covers_host(wide.host, narrow.host)
        and list_endpoints(narrow) <= list_endpoints(wide)
        and _covers_methods(wide.methods, narrow.methods)
        and _covers_path(wide.path, narrow.path)
        and _covers_query(wide.query, narrow.query)
        and _covers_budgets(wide, narrow)
        and (wide.private or not narrow.private)
    )


def narrow(rule: Rule, rules: Iterable[Rule]) -> Rule | None:
    """Return the part of a rule that one of `rules` covers; `None` if there is none, or if unsure.

    Query, byte limits, rate, step and open parts (scheme, HEAD beside GET) may shrink. Host, path and named methods may
    not: a rule that differs in those means something else.
    """
    candidates = tuple(rules)
    for wide in sorted((each for each in candidates if each.verdict != "deny"), key=rank_rule, reverse=True):
        part = _intersect(rule, wide)
        if part is not None and covers(wide, part) and covers(rule, part) and find_cover(part, candidates) is not None:
            return part
    return None


def _intersect(rule: Rule, wide: Rule) -> Rule | None:
    """Return a rule with its open parts and limits reduced to those of another; `None` if the result is invalid."""
    methods = ("GET",) if rule.methods == READ and wide.methods == ("GET",) else rule.methods
    open_end = rule.scheme is None and wide.scheme is not None and rule.port in (None, wide.port)
    try:
        return check_rule(
            replace(
                rule,
                scheme=wide.scheme if open_end else rule.scheme,
                port=wide.port if open_end else rule.port,
                methods=methods,
                query=_intersect_queries(rule.query, wide.query),
                up=_choose_lesser(rule.up, wide.up),
                down=_choose_lesser(rule.down, wide.down),
                rate=_choose_lesser(rule.rate, wide.rate),
                private=rule.private and wide.private,
                step="",
            )
        )
    except BriefError:
        return None


def _intersect_queries(narrow: _Query, wide: _Query) -> _Query:
    """Return the parameters that both queries admit, with the narrower glob of each; drop one if that is uncertain."""
    if narrow is None or wide is None:
        return wide if narrow is None else narrow
    theirs = {unquote_plus(name): value for name, value in wide}
    found = []
    for name, value in narrow:
        other = theirs.get(unquote_plus(name))
        if _covers_value(other, value):
            found.append((name, value))
        elif other is not None and _covers_value(value, other):
            found.append((name, other))
    return tuple(found)


def _choose_lesser(one: _Limit, other: _Limit) -> _Limit:
    """Return the lower of two limits; `None` means no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _is_undone(rule: Rule, cover: Rule, other: Rule) -> bool:
    """Return whether a rule might admit a request that a deny or ask rule beside its cover applies to."""
    if other is cover or other.tunnel or other.verdict == "allow" or not can_overlap(rule, other):
        return False
    if rule.tunnel:
        return True
    if other.verdict == "ask" and "ask" in (cover.verdict, rule.verdict):
        return False
    return not (rank_rule(other) > rank_rule(replace(rule, step="")) or rank_rule(cover) > rank_rule(other))


def can_overlap(rule: Rule, catch: Rule) -> bool:
    """Return whether some request could match both a rule and a deny or ask rule."""
    if not (shares_host(rule.host, catch.host) and list_endpoints(rule) & list_endpoints(catch)):
        return False
    if rule.tunnel:
        return True
    methods = ANY in (rule.methods, catch.methods) or bool({*rule.methods} & {*catch.methods})
    return methods and not _is_disjoint(rule.path, catch.path)


def rank_rule(rule: Rule) -> _Rank:
    """Return a rule's precedence: the higher one decides, and between equal ones it is uncertain."""
    whole = rule.verdict == "deny" and rule.methods == ANY and rule.path == "/**" and rule.query is None
    prefix, star, _ = rule.path.partition("*")
    path = (len(prefix), not star, len(rule.path) - rule.path.count("*"), -rule.path.count("**"))
    methods = {READ: 1, ANY: 0}.get(rule.methods, 2)
    named = (rule.scheme is not None) + (rule.port is not None)
    parameters = -1 if rule.query is None else 1000 - len(rule.query)
    return rank_host(rule.host), (whole, *path, rule.verdict == "deny", methods, named, parameters)


def rank_host(host: str) -> tuple[int, int]:
    """Return how specific a host pattern is; more specific is higher."""
    if "/" in host:
        return 0, ip_network(host).prefixlen
    return (1, len(host)) if host.startswith("*.") else (2, 0)


def list_endpoints(rule: Rule) -> frozenset[tuple[str, int]]:
    schemes = (rule.scheme,) if rule.scheme else ("https",) if rule.tunnel else tuple(PORTS)
    return frozenset((scheme, rule.port or PORTS[scheme]) for scheme in schemes)


@lru_cache(maxsize=1 << 14)
def covers_host(wide: str, narrow: str) -> bool:
    if wide == narrow:
        return True
    if is_address(wide) or is_address(narrow):
        return is_address(wide) and is_address(narrow) and holds(ip_network(wide), ip_network(narrow))
    return wide.startswith("*.") and narrow.removeprefix("*.").endswith(wide[1:])


def holds(wide: IPv4Network | IPv6Network, narrow: IPv4Network | IPv6Network) -> bool:
    if isinstance(wide, IPv4Network) and isinstance(narrow, IPv4Network):
        return narrow.subnet_of(wide)
    return isinstance(wide, IPv6Network) and isinstance(narrow, IPv6Network) and narrow.subnet_of(wide)


def shares_host(one: str, other: str) -> bool:
    """Return whether two patterns have a host in common, which is only so if one covers the other."""
    return covers_host(one, other) or covers_host(other, one)


def _covers_methods(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    return set(narrow) <= set(wide) or (wide == ANY and set(narrow) <= COMMON)


def _covers_path(wide: str, narrow: str) -> bool:
    """Return whether a path glob certainly matches everything another does; `False` if unsure."""
    if wide in ("/**", narrow):
        return True
    outer, inner = wide[1:].split("/"), narrow[1:].split("/")
    if outer[-1] == "**":
        outer.pop()
        long = len(inner) > len(outer)
    else:
        long = len(inner) == len(outer)
    pairs = list(zip(outer, inner, strict=False))
    return long and not any("**" in pair for pair in pairs) and all(_covers_segment(*pair) for pair in pairs)


def _covers_segment(wide: str, narrow: str) -> bool:
    """Return whether a segment's glob certainly matches everything another does. `%2F` counts as uncertain."""
    if wide == narrow:
        return True
    if "%2F" in wide + narrow:
        return False
    if "*" not in narrow:
        return compile_glob(f"/{wide}").fullmatch(list_readings(f"/{narrow}")[0]) is not None
    return wide.count("*") == 1 and wide.endswith("*") and narrow.startswith(wide[:-1])


def _is_disjoint(one: str, other: str) -> bool:
    """Return whether two globs certainly have no path in common."""
    if "%2F" in one + other:
        return False
    first_parts, second_parts = one[1:].split("/"), other[1:].split("/")
    for first, second in zip(first_parts, second_parts, strict=False):
        if "**" in (first, second):
            return False
        if _is_segment_disjoint(first, second):
            return True
    return "**" not in first_parts + second_parts and len(first_parts) != len(second_parts)


def _is_segment_disjoint(one: str, other: str) -> bool:
    if "*" not in one and "*" not in other:
        return one != other
    heads, tails = (one.split("*")[0], other.split("*")[0]), (one.split("*")[-1], other.split("*")[-1])
    if "*" not in one or "*" not in other:
        glob, plain = (one, other) if "*" in one else (other, one)
        return compile_glob(f"/{glob}").fullmatch(list_readings(f"/{plain}")[0]) is None
    begin = heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])
    end = tails[0].endswith(tails[1]) or tails[1].endswith(tails[0])
    return not (begin and end)


def _covers_query(wide: tuple[tuple[str, str], ...] | None, narrow: tuple[tuple[str, str], ...] | None) -> bool:
    if wide is None or narrow is None:
        return wide is None
    parameters = {unquote_plus(name): value for name, value in wide}
    return all(_covers_value(parameters.get(unquote_plus(name)), value) for name, value in narrow)


def _covers_value(wide: str | None, narrow: str) -> bool:
    """Return whether a value's glob certainly matches everything another does; `False` if unsure."""
    if wide is None or wide in ("*", narrow):
        return wide is not None
    return "*" not in narrow and compile_value(wide).fullmatch(unquote_plus(narrow)) is not None


def _covers_budgets(wide: Rule, narrow: Rule) -> bool:
    """Return whether a rule's limits are within another's; an unset limit takes the other's."""
    pairs = ((wide.up, narrow.up), (wide.down, narrow.down), (wide.rate, narrow.rate))
    return all(have is None or want is None or want <= have for have, want in pairs)
