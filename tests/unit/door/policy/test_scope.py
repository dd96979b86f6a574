"""Tests of reading scopes from lines and tables: the same on the command line as in a brief."""

from __future__ import annotations

import argparse
import json
import tomllib

import pytest

from hotdesk.brief import CLOSED, Grant, Rule, Scope, SecretPlace, compute_digest, parse_scope, scope_json
from hotdesk.cli import options
from hotdesk.door.policy.scope import read_grant, scope_of
from hotdesk.errors import BriefError

ARGV = [
    "--allow", "GET erp.test/data/*?page=1 up=1M rate=2",
    "--allow", "write api.test:8443",
    "--allow", "github-read",
    "--deny", "erp.test/data/private",
    "--ask", "POST erp.test/orders",
    "--grant", "erp-token@erp.test",
    "--grant", "key@api.test:8443 header=X-Key swap cookie=session env=API_KEY seconds=600 field=token foreign",
    "--grant", "login@erp.test form=password:POST:/login",
    "--map", "erp.test=127.0.0.1:8443",
]  # fmt: skip
BRIEF = """
rules = [
    {host = "erp.test", methods = ["GET"], path = "/data/*", query = {page = "1"}, up = "1M", rate = 2},
    {host = "api.test", methods = "write", port = 8443},
    "github-read",
    {host = "erp.test", verdict = "deny", path = "/data/private"},
    {host = "erp.test", verdict = "ask", methods = ["POST"], path = "/orders"},
]
names = {"erp.test" = "127.0.0.1:8443"}
[[grants]]
secret = "erp-token"
host = "erp.test"
[[grants]]
secret = "key"
host = "api.test"
port = 8443
places = ["header=X-Key swap", {kind = "cookie", name = "session"}]
env = "API_KEY"
seconds = 600
fields = ["token"]
foreign = true
[[grants]]
secret = "login"
host = "erp.test"
places = ["form=password:POST:/login"]
"""


def from_command_line(*argv: str) -> Scope:
    """Read options as `hotdesk run` does."""
    parser = argparse.ArgumentParser()
    options.add_scope(parser)
    return options.make_scope(parser.parse_args(argv))


def test_the_command_line_and_a_brief_give_the_same_scope() -> None:
    brief = tomllib.loads(BRIEF)
    scope = scope_of(brief["rules"], brief["grants"], brief["names"])
    assert compute_digest(from_command_line(*ARGV)) == compute_digest(scope)
    assert scope.rules[0] == Rule(
        "erp.test", methods=("GET",), path="/data/*", query=(("page", "1"),), up=1 << 20, rate=2.0
    )
    assert scope.grants[1].places == (SecretPlace("header", "X-Key", swap=True), SecretPlace("cookie", "session"))
    assert compute_digest(scope_of(brief["rules"], brief["grants"])) != compute_digest(scope)


def test_a_scope_crosses_a_process_border_as_it_is() -> None:
    scope = from_command_line(*ARGV)
    assert parse_scope(json.loads(scope_json(scope))) == scope


def test_without_options_there_is_no_way_out() -> None:
    assert from_command_line() == CLOSED
    assert from_command_line("--no-ask") == CLOSED


def test_a_desk_with_a_way_out_may_ask_unless_told_otherwise() -> None:
    assert from_command_line("--allow", "erp.test").may_ask
    assert not from_command_line("--allow", "erp.test", "--no-ask").may_ask


def test_a_repeated_rule_counts_once() -> None:
    assert scope_of(["erp.test", {"host": "erp.test"}]).rules == (Rule("erp.test"),)


@pytest.mark.parametrize("verdict", ["deny", "ask", "allow", "tunnel"])
def test_a_preset_behind_a_verdict_is_no_host(verdict: str) -> None:
    with pytest.raises(BriefError, match="--allow pypi"):
        scope_of([f" {verdict}  pypi "])


@pytest.mark.parametrize(
    ("rules", "grant", "remedy"),
    [
        (["other.test"], "key@erp.test", "allow it with --allow 'erp.test'"),
        ([], "key@erp.test", "allow it with --allow 'erp.test'"),
        (["erp.test"], "key@erp.test:8443", "allow it with --allow 'https://erp.test:8443'"),
        (["http://erp.test"], "key@erp.test", "allow it with --allow 'erp.test'"),
        (["erp.test", "deny erp.test"], "key@erp.test", "allow it with --allow 'erp.test'"),
        (["tunnel erp.test"], "key@erp.test", "allow it with --allow 'erp.test'"),
        (["other.test"], "key@[2001:db8::1]", r"allow it with --allow '\[2001:db8::1\]'"),
    ],
)
def test_a_secret_for_a_host_no_rule_admits_is_refused(rules: list[str], grant: str, remedy: str) -> None:
    with pytest.raises(BriefError, match=remedy):
        scope_of(rules, [grant])


@pytest.mark.parametrize(
    "rule", ["*.test.example", "ask erp.test.example", "erp.test.example step=one", "https://erp.test.example"]
)
def test_a_secret_goes_where_any_rule_could_let_the_desk_go(rule: str) -> None:
    assert scope_of([rule], ["key@erp.test.example"]).grants == (Grant("key", "erp.test.example"),)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"secret": "key"}, "`secret` and `host` are required"),
        ({"host": "erp.test"}, "`secret` and `host` are required"),
        ({"secret": "key", "host": "erp.test", "value": "x"}, "'value' is not a field"),
        ({"secret": "key", "host": "*.erp.test"}, "a pattern"),
        ({"secret": "key", "host": "erp.test", "places": "bearer"}, "must be a list of at most"),
        ({"secret": "key", "host": "erp.test", "places": ["bearer basic"]}, "is not a place for a secret"),
        ({"secret": "key", "host": "erp.test", "places": ["bearer env=X"]}, "is not a place for a secret"),
        ({"secret": "key", "host": "erp.test", "places": [{"name": "x"}]}, "place"),
        ({"secret": "key", "host": "erp.test", "places": [{"kind": "bearer", "value": "x"}]}, "not a field of a place"),
        ({"secret": "key", "host": "erp.test", "seconds": "long"}, "seconds"),
        ({"secret": "key", "host": "erp.test", "fields": [["x"]]}, "field"),
        ({"secret": 1, "host": "erp.test"}, "`secret` and `host` are required"),
    ],
)
def test_a_table_that_is_not_a_grant_is_refused(table: dict[str, object], why: str) -> None:
    with pytest.raises(BriefError, match=why):
        read_grant(table)


@pytest.mark.parametrize("lead", ["127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "", "a b:1", "http://127.0.0.1:80"])
def test_a_name_leads_to_a_host_and_port(lead: str) -> None:
    with pytest.raises(BriefError, match="write NAME=HOST:PORT"):
        scope_of(["erp.test"], names={"erp.test": lead})


def test_a_name_is_kept_as_it_is_sent() -> None:
    assert scope_of(["erp.test"], names={"ERP.test.": "127.0.0.1:80"}).names == {"erp.test": "127.0.0.1:80"}


@pytest.mark.parametrize("pair", ["erp.test", "=127.0.0.1:80"])
def test_a_map_without_both_sides_is_refused(pair: str) -> None:
    with pytest.raises(BriefError, match="--map must be NAME=HOST:PORT"):
        from_command_line("--map", pair)
