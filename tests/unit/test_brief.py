"""Tests of scopes as text, tables and JSON: every form reads back, every mistake is named."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import asdict, replace
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.brief import (
    ANY,
    READ,
    Grant,
    Rule,
    Scope,
    SecretPlace,
    check_grant,
    check_rule,
    compute_digest,
    grant_text,
    parse_grant,
    parse_rule,
    parse_rule_table,
    parse_scope,
    rule_text,
    scope_json,
)
from hotdesk.brief.paths import canonicalize_path, compile_glob
from hotdesk.errors import BriefError

LABELS = st.from_regex(r"[a-z0-9_]([a-z0-9_-]{0,8}[a-z0-9_])?", fullmatch=True)
NAMES = st.builds(lambda labels: ".".join(labels) + ".test", st.lists(LABELS, min_size=1, max_size=4))
V4 = st.ip_addresses(v=4).map(str)
V6 = st.ip_addresses(v=6).map(str).filter(lambda text: "." not in text and not text.startswith("::ffff:"))
V4_NETWORKS = st.builds(
    lambda address, prefix: str(IPv4Network((int(address), prefix), strict=False)),
    st.ip_addresses(v=4),
    st.integers(8, 31),
)
HOSTS = st.one_of(
    NAMES, NAMES.filter(lambda name: name.count(".") > 1).map(lambda name: f"*.{name}"), V4, V6, V4_NETWORKS
)
SEGMENTS = st.one_of(st.just("**"), st.from_regex(r"[A-Za-z0-9_~-]{1,6}\*?[a-z0-9]{0,3}", fullmatch=True), st.just("*"))
GLOBS = st.lists(SEGMENTS, max_size=5).map(lambda segments: "/" + "/".join(segments))
QUERIES = st.none() | st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_.\[\]-]{0,8}", fullmatch=True), st.from_regex(r"[A-Za-z0-9*+/:-]{0,8}",
    fullmatch=True),
    min_size=1, max_size=3,
).map(lambda query: tuple(query.items()))  # fmt: skip
METHODS = st.sampled_from([READ, ANY, ("GET",), ("POST",), ("DELETE", "PUT"), ("M-SEARCH",)])
SIZES = st.none() | st.integers(1, 1 << 50)
STEPS = st.sampled_from(["", "fetch", "step-2"])
RULES = st.builds(
    Rule, HOSTS, verdict=st.sampled_from(["allow", "deny", "ask"]), scheme=st.sampled_from([None, "http", "https"]),
    port=st.none() | st.integers(1, 65535), methods=METHODS, path=GLOBS, query=QUERIES, up=SIZES, down=SIZES,
    rate=st.none() | st.floats(0.001, 10000), private=st.booleans(), step=STEPS,
).map(check_rule)  # fmt: skip
TUNNELS = st.builds(Rule, HOSTS, port=st.none() | st.integers(1, 65535), up=SIZES, step=STEPS, tunnel=st.just(True))
TEXTS = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=12).filter(str.isprintable)
PLACES = st.one_of(
    st.builds(SecretPlace, st.sampled_from(["bearer", "basic"]), swap=st.booleans()),
    st.builds(SecretPlace, st.just("header"), st.sampled_from(["Authorization", "X-Api-Key"]), swap=st.booleans()),
    st.builds(SecretPlace, st.just("cookie"), st.sampled_from(["sid", "__Host-s"]), swap=st.booleans()),
    st.builds(SecretPlace, st.just("query"), TEXTS, st.just("GET"), st.just("/a:b/c"), st.booleans()),
    st.builds(SecretPlace, st.sampled_from(["form", "json"]), TEXTS, st.just("POST"), st.just("/login"), st.just(True)),
)
GRANTS = st.builds(
    Grant, st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True), NAMES | V4 | V6, st.integers(1, 65535),
    st.lists(PLACES, max_size=3, unique_by=lambda place: (place.kind, place.name.lower())).map(tuple),
    st.sampled_from(["", "ERP_TOKEN"]), STEPS, st.none() | st.floats(1,
    1000).map(lambda number: float(f"{number:.9g}")),
    st.lists(TEXTS, max_size=2, unique=True).map(tuple), st.booleans(), st.booleans(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("example.test", Rule("example.test")),
        ("GET example.test/data/*", Rule("example.test", methods=("GET",), path="/data/*")),
        ("allow read example.test", Rule("example.test")),
        ("write example.test", Rule("example.test", methods=ANY)),
        ("POST,GET,POST example.test", Rule("example.test", methods=("GET", "POST"))),
        ("HEAD,GET example.test", Rule("example.test")),
        ("deny example.test", Rule("example.test", verdict="deny", methods=ANY)),
        ("deny read example.test", Rule("example.test", verdict="deny")),
        ("ask write example.test/x", Rule("example.test", verdict="ask", methods=ANY, path="/x")),
        ("tunnel db.example.test:5432", Rule("db.example.test", tunnel=True, port=5432)),
        ("https://example.test:443/", Rule("example.test", scheme="https", path="/")),
        ("HTTP://EXAMPLE.test.:8080", Rule("example.test", scheme="http", port=8080)),
        ("*.example.test", Rule("*.example.test")),
        ("bücher.example", Rule("xn--bcher-kva.example")),
        ("*.bücher.example", Rule("*.xn--bcher-kva.example")),
        ("10.1.2.3", Rule("10.1.2.3")),
        ("10.0.0.0/8", Rule("10.0.0.0/8")),
        ("http://10.0.0.0/8:8080/x", Rule("10.0.0.0/8", scheme="http", port=8080, path="/x")),
        ("[10.0.0.0/8]/x", Rule("10.0.0.0/8", path="/x")),
        ("[10.1.2.3]/8", Rule("10.1.2.3", path="/8")),
        ("10.1.2.3:80/8", Rule("10.1.2.3", port=80, path="/8")),
        ("10.1.2.3/32", Rule("10.1.2.3")),
        ("[FD00::1]:80/x", Rule("fd00::1", port=80, path="/x")),
        ("[fd00::/8]", Rule("fd00::/8")),
        ("example.test?", Rule("example.test", query=())),
        ("example.test/s?q=*&page", Rule("example.test", path="/s", query=(("page", "*"), ("q", "*")))),
        ("example.test/s?u=http://x", Rule("example.test", path="/s", query=(("u", "http://x"),))),
        ("example.test/%7ea%2f%c3%a9", Rule("example.test", path="/~a%2F%C3%A9")),
        (
            "example.test up=1M down=1.5K rate=0.5 private step=fetch",
            Rule("example.test", up=1 << 20, down=1536, rate=0.5, private=True, step="fetch"),
        ),
    ],
)
def test_a_rule_is_read(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule
    assert parse_rule(rule_text(rule)) == rule


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "allow", "read", "GET", "*", "*.com", "*.test", "*.co.uk", "*.github.io", "a.*.test", "*example.test",
        "*.*.example.test", "deny write example.test", "TRACE example.test", "CONNECT example.test", "get example.test",
        "GET,, example.test", "user@example.test", "ftp://example.test", "example.test:0", "example.test:65536",
        "example.test:", "example.test/../x", "example.test/a//b", "example.test/a**", "example.test/%",
        "exa mple.test",
        "example.test/a?*=1", "example.test/a?=1", "example.test/a?a=1&a=2", "example.test/a?a=1&%61=2",
        "deny example.test/a?", "example.test/a?a=%ff", "example.test#x", "example..test", ".example.test", "-a.test",
        "1.2.3", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "1.2.3.4.5", "example.123", "10.1.0.0/8",
        "0.0.0.0/0", "10.0.0.0/33", "[::ffff:10.0.0.1]", "[fe80::1%eth0]", "[::/0]", "faß.test", "a。test",
        "tunnel example.test/x", "tunnel GET example.test", "tunnel https://example.test", "example.test up=0",
        "example.test up=-1", "example.test rate=nan", "example.test rate=0", "example.test up=1 up=2", "private",
        "example.test private=1", "example.test step=", "example.test step=a/b", "example.test colour=red",
        "example.test rate=x", "example.test other.test", "x" * 64 + ".test", "a." * 127 + "test", "read\0.test",
        "éxample\u200d.test",
    ],
)  # fmt: skip
def test_an_invalid_rule_is_refused_with_an_example(text: str) -> None:
    port = ":8443" if re.fullmatch(r"example\.test:\d*", text) else ""
    own = r"; (write (?!it like 'GET)|remove |it must be |the options are )| as in "
    general = rf"write it like 'GET example\.test{port}/data/\*'$"
    with pytest.raises(BriefError, match=rf"^rule .*({general}|{own})"):
        parse_rule(text)


@pytest.mark.slow
@given(RULES | TUNNELS)
def test_a_rules_text_reads_back_as_the_rule(rule: Rule) -> None:
    assert parse_rule(rule_text(rule)) == rule


@given(st.text(max_size=60))
def test_any_text_is_a_rule_and_a_grant_or_the_callers_error(text: str) -> None:
    for read, write in ((parse_rule, rule_text), (parse_grant, grant_text)):
        try:
            thing = read(text)
        except BriefError:
            continue
        assert read(write(thing)) == thing  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"host": "example.test"}, "example.test"),
        ({"host": "example.test", "methods": ["GET"], "path": "/data/*"}, "GET example.test/data/*"),
        ({"host": "example.test", "methods": "write", "verdict": "ask"}, "ask write example.test"),
        ({"host": "example.test", "verdict": "deny"}, "deny example.test"),
        ({"host": "example.test", "query": {"q": "*"}, "up": "1M", "rate": 2}, "example.test?q=* up=1M rate=2"),
        ({"host": "10.0.0.0/8", "port": 80, "private": True, "scheme": "http"}, "http://10.0.0.0/8 private"),
        ({"host": "example.test", "tunnel": True}, "tunnel example.test"),
    ],
)
def test_a_table_says_what_the_text_says(table: dict[str, object], text: str) -> None:
    assert parse_rule_table(table) == parse_rule(text)


@pytest.mark.parametrize(
    "table",
    [
        {}, {"host": 5}, {"host": "example.test", "colour": "red"}, {"host": "example.test", "methods": []},
        {"host": "example.test", "methods": [5]}, {"host": "example.test", "methods": 5},
        {"host": "example.test", "port": "80"}, {"host": "example.test", "port": True},
        {"host": "example.test", "private": 1}, {"host": "example.test", "path": 5},
        {"host": "example.test", "query": {"a": 5}}, {"host": "example.test", "query": "a=b"},
        {"host": "example.test", "up": 1.5}, {"host": "example.test", "verdict": "maybe"},
        {"host": "example.test", "scheme": "ftp"}, {"host": "example.test", "step": 1},
        {"host": "example.test", "verdict": "deny", "methods": "write"},
    ],
)  # fmt: skip
def test_an_invalid_table_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(BriefError, match=r"^rule .*; (write |remove |it must be |the fields are )"):
        parse_rule_table(table)


@pytest.mark.parametrize(
    ("text", "grant"),
    [
        ("erp@erp.test", Grant("erp", "erp.test")),
        ("erp@ERP.test.:8443 bearer", Grant("erp", "erp.test", 8443, (SecretPlace("bearer"),))),
        ("erp@erp.test bearer swap", Grant("erp", "erp.test", places=(SecretPlace("bearer", swap=True),))),
        ("erp@10.0.0.1 basic", Grant("erp", "10.0.0.1", places=(SecretPlace("basic"),))),
        ("erp@[fd00::1]:1", Grant("erp", "fd00::1", 1)),
        (
            "erp@erp.test header=X-Api-Key cookie=sid swap",
            Grant(
                "erp", "erp.test", places=(SecretPlace("header", "X-Api-Key"), SecretPlace("cookie", "sid", swap=True))
            ),
        ),
        (
            "erp@erp.test header=X-Token:token%20%3a:%3bv1",
            Grant("erp", "erp.test", places=(SecretPlace("header", "X-Token", before="token :", after=";v1"),)),
        ),
        (
            "erp@erp.test form=password:POST:/login",
            Grant("erp", "erp.test", places=(SecretPlace("form", "password", "POST", "/login", True),)),
        ),
        (
            "erp@erp.test json=auth.password:POST:/a:b",
            Grant("erp", "erp.test", places=(SecretPlace("json", "auth.password", "POST", "/a:b", True),)),
        ),
        (
            "erp@erp.test query=a%3Ab:GET:/%7ex",
            Grant("erp", "erp.test", places=(SecretPlace("query", "a:b", "GET", "/~x"),)),
        ),
        (
            "erp@erp.test env=ERP step=fetch seconds=600 field=token field=a%20b foreign identity",
            Grant(
                "erp", "erp.test", env="ERP", step="fetch", seconds=600.0, fields=("token", "a b"), foreign=True,
                identity=True,
            ),
        ),
        (
            "erp@erp.test allow-header=X_Tenant allow-header=x-tenant allow-field=device%20token",
            Grant("erp", "erp.test", allow_headers=("x-tenant",), allow_fields=("device token",)),
        ),
    ],
)  # fmt: skip
def test_a_grant_is_read(text: str, grant: Grant) -> None:
    assert parse_grant(text) == grant
    assert parse_grant(grant_text(grant)) == grant


@pytest.mark.parametrize(
    "text",
    [
        "", "erp", "erp@", "@erp.test", "ERP@erp.test", "-erp@erp.test", "e_rp@erp.test", "e" * 65 + "@erp.test",
        "erp@*.erp.test", "erp@10.0.0.0/8", "erp@erp.test/x", "erp@erp.test:0", "erp@erp.test:99999", "erp@127.1",
        "erp@https://erp.test", "erp@erp.test swap", "erp@erp.test env=A swap", "erp@erp.test bearer=x",
        "erp@erp.test bearer bearer", "erp@erp.test header=X-A header=x-a", "erp@erp.test header",
        "erp@erp.test header=",
        "erp@erp.test header=a:b", "erp@erp.test header=a:b:%0a", "erp@erp.test header=a:b:c swap",
        "erp@erp.test header=Host", "erp@erp.test header=content-length",
        "erp@erp.test header=Transfer-Encoding", "erp@erp.test header=Connection", "erp@erp.test header=Cookie",
        "erp@erp.test header=Proxy-Authorization", "erp@erp.test header=Upgrade", "erp@erp.test header=TE",
        "erp@erp.test cookie=a;b", "erp@erp.test query=key", "erp@erp.test query=key:GET",
        "erp@erp.test query=key::/x", "erp@erp.test form=p:POST:/a/*", "erp@erp.test form=:POST:/a",
        "erp@erp.test json=p:post:/a", "erp@erp.test json=p:CONNECT:/a", "erp@erp.test json=p:POST:/../a",
        "erp@erp.test json=%ff:POST:/a", "erp@erp.test json=%00:POST:/a", "erp@erp.test env=PATH",
        "erp@erp.test env=LD_PRELOAD", "erp@erp.test env=https_proxy", "erp@erp.test env=1A", "erp@erp.test env=",
        "erp@erp.test env=A env=B", "erp@erp.test seconds=0", "erp@erp.test seconds=nan", "erp@erp.test seconds=x",
        "erp@erp.test field=", "erp@erp.test foreign=1", "erp@erp.test foreign foreign", "erp@erp.test what",
        "erp@erp.test allow-header=", "erp@erp.test allow-header=a:b", "erp@erp.test allow-header=Cookie",
        "erp@erp.test allow-header=Authorization", "erp@erp.test allow-field=",
        "erp@erp.test step=a/b",
    ],
)  # fmt: skip
def test_an_invalid_grant_is_refused_with_an_example(text: str) -> None:
    general = r"write it like 'erp-token@erp\.example\.test(:8443)? bearer'$"
    own = r"; (write (?!it like 'erp)|use |add |remove |it must be |the options are )| as in | is written as "
    with pytest.raises(BriefError, match=rf"^grant .*({general}|{own})"):
        parse_grant(text)


def test_a_secret_in_a_body_is_only_put_where_the_desk_asked_for_it() -> None:
    attached = Grant("erp", "erp.test", places=(SecretPlace("form", "p", "POST", "/login", swap=False),))
    assert check_grant(attached).places[0].swap
    with pytest.raises(BriefError, match="not in canonical form"):
        parse_scope(json.loads(scope_json(Scope(grants=(attached,)))))


def test_a_secret_for_a_pattern_is_refused_with_the_reason() -> None:
    with pytest.raises(BriefError, match="a secret needs one exact host name"):
        parse_grant("erp@*.erp.test")


@pytest.mark.parametrize("text", ["a.test" + " " * (1 << 17) + "step=one", "a@a.test" + " " * (1 << 17) + "step=one"])
def test_a_line_is_read_whole_or_not_at_all(text: str) -> None:
    for read in (parse_rule, parse_grant):
        with pytest.raises(BriefError, match="longer than"):
            read(text)


def test_the_largest_rule_and_grant_fit_on_a_line() -> None:
    query = tuple((f"{number:03}" + "n" * 509, "v" * 512) for number in range(32))
    rule = check_rule(Rule("a.test", path="/" + "p" * 1023, query=query))
    assert parse_rule(rule_text(rule)) == rule
    names = [f"{number:03}" + "\U0001f600" * 125 for number in range(48)]
    places = tuple(SecretPlace("form", name, "POST", "/" + "p" * 1023, True) for name in names[:16])
    grant = check_grant(Grant("erp", "erp.test", places=places, fields=tuple(names[16:])))
    assert parse_grant(grant_text(grant)) == grant


@pytest.mark.slow
@given(GRANTS)
def test_a_grants_text_reads_back_as_the_grant(grant: Grant) -> None:
    assert parse_grant(grant_text(grant)) == grant


SCOPE = Scope(
    rules=(parse_rule("GET example.test/a?b=c up=1M"), parse_rule("deny *.example.test")),
    grants=(parse_grant("erp@erp.test header=X-A form=p:POST:/login field=t seconds=5"),),
    names={"erp.internal": "127.0.0.1:8443"},
)


@pytest.mark.slow
@given(st.lists(RULES | TUNNELS, max_size=4), st.lists(GRANTS, max_size=3), st.booleans())
def test_a_scope_crosses_a_border_unchanged(rules: list[Rule], grants: list[Grant], may_ask: bool) -> None:
    scope = Scope(tuple(rules), tuple(grants), {"a.internal": "127.0.0.1:1"}, may_ask)
    assert parse_scope(json.loads(scope_json(scope))) == scope


def test_a_digest_is_of_every_field() -> None:
    assert compute_digest(SCOPE) == compute_digest(parse_scope(json.loads(scope_json(SCOPE))))
    assert len(compute_digest(SCOPE)) == 64
    others = [replace(SCOPE, may_ask=False), replace(SCOPE, names={}), replace(SCOPE, rules=SCOPE.rules[::-1])]
    assert len({compute_digest(scope) for scope in (SCOPE, *others)}) == 4
    assert compute_digest(parse_rule("GET a.test")) != compute_digest(parse_rule("GET a.test private"))


def test_the_digest_of_a_scope_is_that_in_old_journals() -> None:
    assert compute_digest(SCOPE) == "e9e22e3a7dc84e56b4481dae2e4f873469ead44919613e9acde1e56e059d05e6"
    assert compute_digest(SCOPE.rules[0]) == "70d0e4d59ebdb40ed4c7edc2564c7fdd604480f63e115e7bacacad8821cccb5b"


@pytest.mark.parametrize(
    "change",
    [
        None, [], "x", {"colour": 1}, {"rules": {}}, {"rules": [None]}, {"rules": [{}]}, {"rules": ["GET a.test"]},
        {"rules": [{"host": "a.test", "colour": 1}]}, {"rules": [{"host": "A.test"}]},
        {"rules": [{"host": ["a.test"]}]},
        {"rules": [{"host": "a.test", "port": True}]}, {"rules": [{"host": "a.test", "port": 80.0}]},
        {"rules": [{"host": "a.test", "methods": "GET"}]}, {"rules": [{"host": "a.test", "methods": ["HEAD", "GET"]}]},
        {"rules": [{"host": "a.test", "rate": math.inf}]}, {"rules": [{"host": "a.test", "private": 1}]},
        {"rules": [{"host": "a.test", "query": [["a"]]}]}, {"rules": [{"host": "a.test", "query": [["a", ["b"]]]}]},
        {"rules": [{"host": "a.test", "query": {}}]}, {"rules": [{"host": "a.test"}] * 1001},
        {"rules": [{"host": "a.test", "path": "/" + "a" * 2000}]}, {"rules": [{"host": "a.test", "verdict": None}]},
        {"grants": [{"secret": "erp"}]}, {"grants": [{"secret": "erp", "host": "*.a.test"}]},
        {"grants": [{"secret": "erp", "host": "a.test", "places": [{"kind": "magic"}]}]},
        {"grants": [{"secret": "erp", "host": "a.test", "places": [{"kind": "form", "name": "a"}]}]},
        {"grants": [{"secret": "erp", "host": "a.test", "places": [{"kind": "bearer", "name": 5}]}]},
        {"grants": [{"secret": "erp", "host": "a.test", "places": [{"kind": "header", "name": "A", "method": []}]}]},
        {"grants": [{"secret": "erp", "host": "a.test", "places": {}}]},
        {"grants": [{"secret": "erp", "host": "a.test", "port": None}]},
        {"grants": [{"secret": "erp", "host": "a.test", "env": None}]},
        {"names": []}, {"names": {"a.test": 5}}, {"names": {"a.test": "b.test"}}, {"names": {"*.a.test": "b.test:1"}},
        {"names": {"A.test": "b.test:1"}}, {"may_ask": 1}, {"may_ask": None},
    ],
    ids=lambda change: str(change)[:80],
)  # fmt: skip
def test_a_scope_that_is_not_one_is_refused(change: object) -> None:
    with pytest.raises(BriefError):
        parse_scope(change)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.data(), VALUES)
def test_a_scope_with_any_value_anywhere_is_read_or_refused(data: st.DataObject, value: object) -> None:
    told = json.loads(scope_json(SCOPE))
    part = data.draw(st.sampled_from([told, told["rules"][0], told["grants"][0], told["grants"][0]["places"][0]]))
    part[data.draw(st.sampled_from(sorted(part)))] = value
    try:
        scope = parse_scope(told)
    except BriefError:
        return
    assert parse_scope(json.loads(scope_json(scope))) == scope


def test_the_defaults_may_be_left_out() -> None:
    assert parse_scope({}) == Scope()
    assert parse_scope({"rules": [{"host": "a.test"}]}).rules == (Rule("a.test"),)
    assert parse_scope(json.loads(json.dumps({"rules": [asdict(Rule("a.test"))]}))).rules == (Rule("a.test"),)


@pytest.mark.parametrize(
    ("glob", "holds", "fails"),
    [
        ("/**", ["/", "/a", "/a/b/"], []),
        ("/data/*", ["/data/", "/data/a"], ["/data", "/data/a/b", "/data/a/"]),
        ("/data/**", ["/data/", "/data/a", "/data/a/b"], ["/data", "/datab"]),
        ("/a*c", ["/ac", "/abc", "/abcc"], ["/a/c", "/abd"]),
        ("/a*b*c", ["/abc", "/aXbbXc", "/abcbc"], ["/acb", "/ab/c"]),
        ("/*/x/**/y", ["/1/x/2/y", "/1/x/2/3/y", "/1/x/y/y"], ["/1/x/y", "/1/x/2/y/", "/1/2/x/3/y"]),
        ("/**/x*y", ["/a/xb/c/xy", "/a/x1y"], ["/xy", "/a/xb/c"]),
        ("/**/a/**/b", ["/1/a/2/b", "/1/a/2/a/3/b"], ["/1/a/b", "/a/1/b"]),
        ("/%2A", ["/*"], ["/a"]),
        ("/a.b", ["/a.b"], ["/aXb"]),
    ],
)
def test_a_glob_matches(glob: str, holds: list[str], fails: list[str]) -> None:
    pattern = compile_glob(glob)
    assert [path for path in holds + fails if pattern.fullmatch(path)] == holds


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("/*a*a*a*a*b", "/" + "a" * 16000),
        ("/**/a*a*a/**/a*b/**/c", "/" + "a/" * 8000),
        ("/**/*a*a*b", "/" + "a" * 8000 + "/" + "a" * 8000),
    ],
)
def test_no_path_makes_a_glob_slow(glob: str, path: str) -> None:
    start = time.process_time()
    assert not compile_glob(glob).fullmatch(path)
    assert time.process_time() - start < 0.1


@given(st.text("/.%2eEfF5cC0a;~*é \\", max_size=20).map(lambda text: "/" + text))
def test_a_canonical_path_stays_as_it_is(text: str) -> None:
    try:
        path = canonicalize_path(text)
    except ValueError:
        return
    assert canonicalize_path(path) == path
