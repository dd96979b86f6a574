"""Tests of whether a brief covers a rule: tables, and random rules to show that it never says yes wrongly."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.brief import Rule, Scheme, parse_rule, rule_text
from hotdesk.brief.coverage import covers, find_cover, narrow, rank_rule
from hotdesk.door.policy.policy import Policy, compile_rule, rank_host
from hotdesk.door.policy.target import Target

HOSTS = ("b.a.test", "*.a.test", "a.test", "*.b.a.test", "192.0.2.7", "[192.0.2.0/24]")
PATHS = ("", "/", "/x", "/x/", "/x/y", "/x/*", "/x/**", "/*", "/*/y", "/x*", "/x*/y", "/**/y", "/x%2Fy", "/*y")
QUERIES = ("", "", "", "", "?", "?q", "?q=1", "?q=1*", "?q=1&r")
METHODS = ("", "read", "write", "GET", "POST", "GET,POST", "DELETE,GET", "PURGE", "GET,HEAD,POST")
ENDS = (("", ""), ("", ""), ("", ""), ("https://", ""), ("http://", ""), ("", ":8443"), ("https://", ":8443"))
REQUEST_HOSTS = ("b.a.test", "b.a.test", "a.test", "c.b.a.test", "192.0.2.7", "192.0.2.9")
REQUEST_PATHS = ("/", "/x", "/x/", "/x/y", "/x/z/y", "/y", "/xa/y", "/x%2Fy", "/x/a%2Fb", "/ay", "/x/z", "/yy")
REQUEST_QUERIES = ("", "", "", "q=1", "q=12", "q=2", "q=1&r=5", "q=1&q=1", "q=1;r=2", "_method=DELETE", "s=1")
FIELDS = ("host", "path", "methods", "query", "scheme", "port")


def some_rule(draw: Random, *verdicts: str) -> Rule:
    verdict, (scheme, port), method = draw.choice(verdicts), draw.choice(ENDS), draw.choice(METHODS)
    path, query = draw.choice(PATHS), draw.choice(QUERIES)
    method = "" if verdict == "deny" and method == "write" else method
    query = "" if verdict != "allow" and query == "?" else query
    path = "/**" if query and not path else path
    return parse_rule(f"{verdict} {method} {scheme}{draw.choice(HOSTS)}{port}{path}{query}")


def some_request(draw: Random) -> Target:
    scheme: Scheme = draw.choice(("http", "https", "https"))
    port = draw.choice(({"http": 80, "https": 443}[scheme],) * 3 + (8443,))
    method = draw.choice(("GET", "GET", "GET", "HEAD", "POST", "DELETE", "PURGE"))
    host, path, query = draw.choice(REQUEST_HOSTS), draw.choice(REQUEST_PATHS), draw.choice(REQUEST_QUERIES)
    return Target(scheme, host, port, method, path, query)


def cover(text: str, brief: str) -> str | None:
    found = find_cover(parse_rule(text), [parse_rule(each) for each in brief.split(" | ")])
    return None if found is None else rule_text(found)


@pytest.mark.parametrize(
    ("text", "brief", "expected"),
    [
        ("GET a.test/x", "read a.test", "read a.test"),
        ("read a.test", "read a.test", "read a.test"),
        ("POST a.test/x", "read a.test", None),
        ("POST a.test/x", "write a.test", "write a.test"),
        ("PURGE a.test/x", "write a.test", None),
        ("GET b.a.test", "read *.a.test", "read *.a.test"),
        ("GET a.test", "read *.a.test", None),
        ("GET nota.test", "read *.a.test", None),
        ("GET *.b.a.test", "read *.a.test", "read *.a.test"),
        ("GET *.a.test", "read b.a.test", None),
        ("GET 192.0.2.7", "read [192.0.2.0/24]", "read [192.0.2.0/24]"),
        ("GET [192.0.2.0/24]", "read 192.0.2.7", None),
        ("GET https://a.test", "read a.test", "read a.test"),
        ("GET a.test", "read https://a.test", None),
        ("GET a.test:8443", "read a.test", None),
        ("GET a.test/x/y", "read a.test/x/*", "read a.test/x/*"),
        ("GET a.test/x/**", "read a.test/x/*", None),
        ("GET a.test/x/*/z", "read a.test/x/**", "read a.test/x/**"),
        ("GET a.test/x", "read a.test/x/**", None),
        ("GET a.test/x%2Fy", "read a.test/*", None),
        ("GET a.test/x?q=1", "read a.test/x?q", "read a.test/x?q=*"),
        ("GET a.test/x", "read a.test/x?q", None),
        ("GET a.test/x?r=1", "read a.test/x?q", None),
        ("GET a.test up=2M", "read a.test up=1M", None),
        ("GET a.test up=1M", "read a.test up=1M", "read a.test up=1M"),
        ("GET a.test private", "read a.test", None),
        ("tunnel a.test", "tunnel a.test", "tunnel a.test"),
        ("tunnel a.test", "write a.test", None),
        ("GET a.test", "tunnel a.test", None),
        ("deny a.test", "read a.test", None),
        # beside rules that ask or deny
        ("GET a.test/x", "ask read a.test", "ask read a.test"),
        ("GET a.test/x/y", "read a.test | deny a.test/x/*", None),
        ("GET a.test/z", "read a.test | deny a.test/x/*", "read a.test"),
        ("GET a.test", "read a.test | deny a.test/x/*", "read a.test"),
        ("GET a.test/x/y", "read a.test | ask read a.test/x/*", "ask read a.test/x/*"),
        ("GET b.a.test", "read *.a.test | deny *.a.test", None),
        ("tunnel b.a.test", "tunnel *.a.test | deny *.a.test/x", None),
    ],
)
def test_a_rule_covers_narrower_rules(text: str, brief: str, expected: str | None) -> None:
    assert cover(text, brief) == expected


def alike(draw: Random, first: Rule, *verdicts: str) -> Rule:
    rule, own = some_rule(draw, *verdicts), draw.sample(FIELDS, draw.randrange(4))
    made = replace(rule, **{name: getattr(first, name) for name in FIELDS if name not in own})
    return replace(made, query=made.query if made.verdict == "allow" else made.query or None)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0))
def test_a_covered_rule_never_admits_more_than_the_brief(seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        first = some_rule(draw, "allow")
        brief = [first, *(alike(draw, first, "allow", "ask", "deny") for _ in range(draw.randrange(4)))]
        rule = alike(draw, first, "allow")
        found = find_cover(rule, brief)
        if found is None or found.verdict == "ask":
            continue
        planned, whole = Policy([rule]), Policy(brief)
        kept = Policy([*(each for each in brief if each.verdict != "allow"), rule])
        for target in (some_request(draw) for _ in range(40)):
            if planned.judge(target).verdict == "allow":
                shown = (target, rule_text(rule), [rule_text(each) for each in brief])
                assert strength(kept.judge(target).verdict) <= strength(whole.judge(target).verdict), shown


def strength(verdict: str) -> int:
    return ("deny", "ask", "allow").index(verdict)


@given(st.integers(min_value=0))
def test_the_deciding_rule_here_decides_at_the_door(seed: int) -> None:
    draw = Random(seed)
    one, other = (some_rule(draw, "allow", "ask", "deny") for _ in range(2))
    here = rank_rule(one), rank_rule(other)
    there = [(rank_host(each.host), compile_rule(each).rank) for each in (one, other)]
    assert here[0] == here[1] or (here[0] > here[1]) == (there[0] > there[1])


@pytest.mark.parametrize(
    ("text", "brief", "expected"),
    [
        ("GET https://a.test/x", "GET https://a.test/x? up=4K", "GET https://a.test/x? up=4K"),
        ("GET a.test/x up=2M down=1K", "read a.test up=1M", "GET a.test/x up=1M down=1K"),
        ("GET a.test rate=5", "read a.test rate=2", "GET a.test rate=2"),
        ("GET a.test/x?q=2&r=1", "read a.test/x?q", "GET a.test/x?q=2"),
        ("GET a.test/x?q=*", "read a.test/x?q=1*", "GET a.test/x?q=1*"),
        ("read a.test/x", "GET https://a.test/x", "GET https://a.test/x"),
        ("GET a.test step=other", "read a.test", "GET a.test"),
        ("GET a.test private", "read a.test", "GET a.test"),
        ("GET a.test/x/y", "deny a.test/x/** | read a.test?", None),
        ("GET,POST a.test/x", "GET a.test/x?", None),
        ("GET a.test/**", "GET a.test/x?", None),
        ("GET *.a.test", "GET b.a.test?", None),
        ("GET http://a.test", "GET https://a.test?", None),
        ("tunnel a.test", "write a.test", None),
        ("ask GET a.test/x", "GET a.test/x?", None),
    ],
)
def test_a_rule_is_narrowed_to_what_a_rule_of_the_brief_allows(text: str, brief: str, expected: str | None) -> None:
    found = narrow(parse_rule(text), [parse_rule(each) for each in brief.split(" | ")])
    assert (None if found is None else rule_text(found)) == expected


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0))
def test_a_narrowed_rule_never_admits_more_than_the_rule_or_the_brief(seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        first = some_rule(draw, "allow")
        brief = [first, *(alike(draw, first, "allow", "ask", "deny") for _ in range(draw.randrange(4)))]
        brief = [replace(each, up=draw.choice((None, 10)), private=draw.random() < 0.2) for each in brief]
        rule = replace(alike(draw, first, "allow"), up=draw.choice((None, 5, 20)), private=draw.random() < 0.2)
        part = narrow(rule, brief)
        if part is None:
            continue
        shown = (rule_text(part), rule_text(rule), [rule_text(each) for each in brief])
        assert find_cover(part, brief) is not None, shown
        assert covers(rule, part), shown
        assert parse_rule(rule_text(part)) == part
        narrowed, planned = Policy([part]), Policy([rule])
        for target in (some_request(draw) for _ in range(40)):
            if narrowed.judge(target).verdict == "allow":
                assert planned.judge(target).verdict == "allow", (target, shown)


@given(st.integers(min_value=0))
def test_a_rule_that_the_brief_covers_has_a_part_that_it_covers(seed: int) -> None:
    draw = Random(seed)
    first = some_rule(draw, "allow")
    brief = [first, *(alike(draw, first, "allow", "ask", "deny") for _ in range(draw.randrange(4)))]
    rule = alike(draw, first, "allow")
    assert find_cover(rule, brief) is None or narrow(rule, brief) is not None
