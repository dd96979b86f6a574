"""The egress decision: rules and a request in, a verdict out. Pure.

Only what a rule admits is admitted. Of several rules that match a request, one decides, whatever their order:

1. the one with the most specific host: exact, then the longer `*.suffix`; an address, then the narrower network;
2. among these a deny of the whole host: it overrides what a preset or a wider list allowed there, paths included;
3. the most specific path: the longer literal beginning, an exact one, more literal text, `*` rather than `**`;
4. a deny;
5. methods by name, then `read`, then `write`; then a scheme or port by name; then parameters;
6. an ask.

So `read example.test/data/*` does not override `deny example.test`, but `read api.example.test` overrides
`deny *.example.test`. An approval overrides an ask and the default, never a deny and never the operator's ceiling.

A request that can be read in two ways (`%2F`, a query with `;`, a method hidden in the query) is allowed only if every
reading is, and is denied or asked if any reading is. How safe a denied path is depends on how the server itself reads
paths: allow narrowly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import unquote_plus

from hotdesk.brief.data import ANY, READ, Rule, Scheme, Scope, Verdict
from hotdesk.brief.names import is_address
from hotdesk.brief.paths import compile_glob, compile_value, list_query_names, list_readings, split_query
from hotdesk.brief.rules import PORTS, check_rule, rule_text
from hotdesk.dataclass import dataclass
from hotdesk.door.policy.address import check, extract_ipv4
from hotdesk.door.policy.target import Target
from hotdesk.errors import BriefError

Network: TypeAlias = IPv4Network | IPv6Network
End: TypeAlias = tuple[str, int]
"""A scheme and a port."""

KNOWN = frozenset(
    """
    GET HEAD POST PUT PATCH DELETE OPTIONS QUERY SEARCH REPORT PROPFIND PROPPATCH MKCOL MKCALENDAR COPY MOVE LOCK UNLOCK
    ACL BIND LINK UNLINK REBIND UNBIND CHECKIN CHECKOUT UNCHECKOUT LABEL MERGE MKACTIVITY MKWORKSPACE UPDATE
    VERSION-CONTROL BASELINE-CONTROL ORDERPATCH
    """.split()
)
"""Methods that `write` admits; any other method must be named."""
OVERRIDES = frozenset(
    "_method _httpmethod httpmethod $httpmethod x-http-method x-http-method-override x-method-override".split()
)
"""Query parameters that replace the method of the request line."""
SHOWN = 20
"""Number of rules that a denial lists."""
_ANYWHERE = Rule("*", methods=ANY)
"""Decides where no other rule does and the whole internet is open. A user cannot write this rule."""
SPECIAL = frozenset("alt arpa example home internal invalid lan local localdomain localhost onion test".split())
"""Top-level labels that do not exist on the public internet."""


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The verdict on a request, with rule and reason."""

    verdict: Verdict
    rule: Rule | None
    """The rule that decided, or `None` if none admits the request."""
    why: str
    ceiling: Rule | None = None
    """The operator's rule that also applies, if any: its budgets count as well."""
    askable: bool = False
    """Whether an approval would change the verdict."""

    @property
    def private(self) -> bool:
        return all(rule.private or is_address(rule.host) for rule in (self.rule, self.ceiling) if rule is not None)


class RequestView:
    """A request in the form that rules match; the parameters are parsed only if a rule needs them."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.end = (target.scheme, target.port)
        self.path, *other = list_readings(target.path)
        self.split = other[0] if other else self.path
        """The same path, with everything that may be a slash read as one."""
        self.overridden = bool(target.query) and any(
            name.lower() in OVERRIDES for name in list_query_names(target.query)
        )

    @cached_property
    def parameters(self) -> tuple[tuple[str, str], ...] | None:
        return split_query(self.target.query)


class Compiled:
    """A rule prepared for matching."""

    __slots__ = ("catches", "ends", "every", "methods", "path", "query", "rank", "rule", "whole")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.ends = _list_ends(rule)
        self.catches = rule.verdict != "allow"
        """Whether the rule applies as soon as any reading of a request matches."""
        self.every = rule.methods == ANY
        self.methods = KNOWN if self.every else frozenset(rule.methods)
        self.path = compile_glob(rule.path).fullmatch
        self.query = (
            None if rule.query is None else {unquote_plus(name): compile_value(value) for name, value in rule.query}
        )
        self.whole = rule.verdict == "deny" and self.every and rule.path == "/**" and rule.query is None
        self.rank = rank(rule, self.whole)

    def explain_mismatch(self, view: RequestView) -> str:
        """Explain why the rule does not match a request for its host, or return an empty string if it does."""
        if view.end not in self.ends:
            return "the rule is for another scheme or port"
        if self.catches:
            return self.explain_evasion(view)
        if view.overridden and not self.every:
            return "the query string changes the method"
        if view.target.method not in self.methods:
            return "the rule is for another method"
        if not self.path(view.path) or (view.split is not view.path and not self.path(view.split)):
            return "the rule is for another path"
        return "" if self.query is None else _explain_parameter_mismatch(self.query, view)

    def explain_evasion(self, view: RequestView) -> str:
        """Explain why a deny or ask does not match a request, or return an empty string if it does."""
        if not (self.every or view.overridden or view.target.method in self.methods):
            return "the rule is for another method"
        if not (self.path(view.path) or self.path(view.split)):
            return "the rule is for another path"
        if self.query is None or view.parameters is None:
            return ""
        caught = any(name in self.query and self.query[name].fullmatch(value) for name, value in view.parameters)
        return "" if caught else "the request has none of the rule's query parameters"


def _explain_parameter_mismatch(query: Mapping[str, re.Pattern[str]], view: RequestView) -> str:
    if view.parameters is None:
        return "the query string of the request is ambiguous"
    if len({name for name, _ in view.parameters}) != len(view.parameters):
        return "the request has a query parameter twice"
    for name, value in view.parameters:
        if name not in query or not query[name].fullmatch(value):
            return "the request has a query parameter or value that the rule does not list"
    return ""


def _list_ends(rule: Rule) -> frozenset[End]:
    schemes = (rule.scheme,) if rule.scheme else ("https",) if rule.tunnel else tuple(PORTS)
    return frozenset((scheme, rule.port or PORTS[scheme]) for scheme in schemes)


def rank(rule: Rule, whole: bool) -> tuple[object, ...]:
    """Return the sort key of rules for the same host: the highest decides."""
    prefix, star, _ = rule.path.partition("*")
    path = (len(prefix), not star, len(rule.path) - rule.path.count("*"), -rule.path.count("**"))
    methods = {READ: 1, ANY: 0}.get(rule.methods, 2)
    named = (rule.scheme is not None) + (rule.port is not None)
    parameters = -1 if rule.query is None else 1000 - len(rule.query)
    tail = (methods, named, parameters, rule.verdict == "ask")
    return (whole, *path, rule.verdict == "deny", *tail, rule.methods, rule.path, rule.query or (), rule_text(rule))


@lru_cache(maxsize=4096)
def compile_rule(rule: Rule) -> Compiled:
    return Compiled(check_rule(rule))


def rank_host(host: str) -> tuple[int, int]:
    """Return how specific a host is, as a sort key: the more specific, the higher."""
    if "/" in host:
        return 0, ip_network(host).prefixlen
    return (1, len(host)) if host.startswith("*.") else (2, 0)


class Index:
    """Rules by host, the deciding one first."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.exact: dict[str, list[Compiled]] = {}
        self.below: dict[str, list[Compiled]] = {}
        networks: dict[Network, list[Compiled]] = {}
        self.all = sorted(
            {each.rule: each for each in map(compile_rule, rules)}.values(), key=_make_sort_key, reverse=True
        )
        for each in self.all:
            host = each.rule.host
            if "/" in host:
                networks.setdefault(ip_network(host), []).append(each)
            elif host.startswith("*."):
                self.below.setdefault(host[1:], []).append(each)
            else:
                self.exact.setdefault(host, []).append(each)
        self.networks = tuple(networks.items())

    def match_host(self, host: str) -> Iterator[Compiled]:
        """Yield the rules that match a host, in the order they decide."""
        yield from self.exact.get(host, ())
        if self.below:
            dot = host.find(".")
            while dot >= 0:
                yield from self.below.get(host[dot:], ())
                dot = host.find(".", dot + 1)
        if self.networks and is_address(host):
            address = ip_address(host)
            for network, rules in self.networks:
                if address in network:
                    yield from rules

    def find_rule(self, view: RequestView) -> Rule | None:
        for each in self.match_host(view.target.host):
            if not each.explain_mismatch(view):
                return each.rule
        return None

    def open(self, end: End, host: str) -> bool:
        """Return whether any request there could be admitted or need an approval."""
        for each in self.match_host(host):
            if end in each.ends:
                if each.whole:
                    return False
                if each.rule.verdict != "deny":
                    return True
        return False

    def is_closed(self, end: End, host: str) -> bool:
        """Return whether a rule denies every request there."""
        whole = next((each for each in self.match_host(host) if end in each.ends and each.whole), None)
        return whole is not None and not self.open(end, host)


def _make_sort_key(each: Compiled) -> tuple[object, ...]:
    return (*rank_host(each.rule.host), each.rule.host, each.rank)


class Policy:
    """The rules of one desk in one step, under the operator's ceiling."""

    def __init__(
        self,
        rules: Iterable[Rule],
        step: str = "",
        ceiling: Iterable[Rule] = (),
        approved: Iterable[Rule] = (),
        anywhere: bool = False,
    ) -> None:
        self.anywhere = anywhere
        self.rules, self.step, self.approved = tuple(rules), step, tuple(approved)
        self.ceiling = tuple(ceiling)
        active = [rule for rule in self.rules if rule.step in ("", step)]
        self.index = Index(rule for rule in active if not rule.tunnel)
        self.tunnels = Index(rule for rule in active if rule.tunnel)
        self.answers = Index(rule for rule in self.approved if rule.step in ("", step))
        self.top = Policy(self.ceiling, step) if self.ceiling else None

    def judge(self, target: Target) -> PolicyDecision:
        view = RequestView(target)
        rule = self.index.find_rule(view) or (_ANYWHERE if self.opens(target.host) else None)
        top = self.top.index.find_rule(view) if self.top else None
        if rule is not None and rule.verdict == "deny":
            return PolicyDecision("deny", rule, f"denied by the rule {rule_text(rule)!r}", top)
        if self.top and (top is None or top.verdict == "deny"):
            why = f"the rule {rule_text(top)!r}" if top else "default deny: no rule of the ceiling admits this request"
            return PolicyDecision("deny", rule, f"denied by the operator's ceiling: {why}", top)
        if rule is None or rule.verdict == "ask" or (top is not None and top.verdict == "ask"):
            return self.decide_approval(view, rule, top)
        return PolicyDecision("allow", rule, "admitted by a rule", top)

    def decide_approval(self, view: RequestView, rule: Rule | None, top: Rule | None) -> PolicyDecision:
        approved = self.answers.find_rule(view) if self.approved else None
        if approved is not None and approved.verdict == "allow":
            return PolicyDecision("allow", approved, "admitted by an approval", top)
        if rule is None:
            return PolicyDecision(
                "deny", None, f"default deny: {self.describe_missing_rule(view.target)}", top, askable=True
            )
        who = "the operator's ceiling" if top is not None and top.verdict == "ask" else f"the rule {rule_text(rule)!r}"
        return PolicyDecision("ask", rule, f"approval required by {who}", top, askable=True)

    def describe_missing_rule(self, target: Target) -> str:
        if next(self.index.match_host(target.host), None) is None:
            return f"no rule names the host {target.host}"
        return f"no rule admits {target.method} {target.url}"

    def can_reach(self, scheme: Scheme, host: str, port: int) -> bool:
        """Return whether any request there could be admitted or need an approval; other names are not resolved."""
        if scheme == "https" and self.tunnel(host, port):
            return True
        end = (scheme, port)
        here = self.index.open(end, host) or (self.answers.open(end, host) and not self.index.is_closed(end, host))
        here = here or (self.opens(host) and end not in (("http", 443), ("https", 80)))
        return here and (self.top is None or self.top.index.open(end, host))

    def opens(self, host: str) -> bool:
        return self.anywhere and is_public(host) and not self.bars(host)

    def bars(self, host: str) -> bool:
        """Return whether a host or address is denied completely, under whatever name it is reached."""
        for name in _expand_host(host):
            if next((each.whole for each in self.index.match_host(name) if each.whole or not each.catches), False):
                return True
        return self.top is not None and self.top.bars(host)

    def tunnel(self, host: str, port: int) -> Rule | None:
        """Return the rule that lets TLS there pass without being read.

        Any deny or ask rule for an equally specific host prevents the tunnel, whatever its path: paths cannot be read
        in it.
        """
        end = ("https", port)
        found = next((each.rule for each in self.tunnels.match_host(host) if end in each.ends), None)
        if found is None or (self.top is not None and self.top.tunnel(host, port) is None):
            return None
        guards = (each.rule for each in self.index.match_host(host) if each.catches and end in each.ends)
        stopped = any(rank_host(rule.host) >= rank_host(found.host) for rule in guards)
        return None if stopped else found

    def tunnel_rules(self, host: str, port: int) -> tuple[Rule, ...]:
        """Return the rule of a tunnel and, if there is a ceiling, the operator's rule for it; empty: no tunnel."""
        found = (self.tunnel(host, port), self.top.tunnel(host, port) if self.top is not None else None)
        return tuple(rule for rule in found if rule is not None) if found[0] is not None else ()

    def explain(self, target: Target) -> tuple[str, ...]:
        """Describe the decision, and for every rule why it decided or did not."""
        view, decision = RequestView(target), self.judge(target)
        lines = [f"{target.method} {target.url}: {decision.verdict}: {decision.why}"]
        lines += _explain_rules("", self.index, view, decision.rule)
        lines += _explain_rules("approved: ", self.answers, view, decision.rule)
        lines += _explain_rules("ceiling: ", self.top.index, view, decision.ceiling) if self.top else []
        lines += [
            f"{rule_text(rule)}: the rule is for another step"
            for rule in self.rules
            if rule.step not in ("", self.step)
        ]
        return tuple(lines)

    def list_allowed(self) -> tuple[str, ...]:
        return self.listed

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """Compute the list once, because a desk may cause any number of denials."""
        rules = [each.rule for index in (self.tunnels, self.index, self.answers) for each in index.all]
        texts = [rule_text(rule) for rule in rules if rule.verdict != "deny" and not self.is_outside_ceiling(rule)]
        texts += [rule_text(_ANYWHERE)] if self.anywhere else []
        more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
        return (*texts[:SHOWN], *more)

    def is_outside_ceiling(self, rule: Rule) -> bool:
        return self.top is not None and not can_overlap(rule, self.top)

    def with_step(self, step: str) -> Policy:
        return Policy(self.rules, step, self.ceiling, self.approved, self.anywhere)

    def widen(self, rule: Rule) -> Policy:
        if rule.verdict != "allow" or rule.tunnel:
            raise BriefError(
                f"{rule_text(rule)!r} cannot be approved during a job, because it is a deny, ask or tunnel rule; "
                "request an allow rule, or write this rule into the brief"
            )
        return Policy(self.rules, self.step, self.ceiling, (*self.approved, check_rule(rule)), self.anywhere)


def _expand_host(host: str) -> Iterator[str]:
    """Yield a host, and the IPv4 addresses that an IPv6 address contains."""
    yield host
    if ":" in host:
        yield from map(str, extract_ipv4(ip_address(host)))


def is_public(host: str) -> bool:
    """Return whether a host can be public, by its name or number alone; its addresses are checked later."""
    if is_address(host):
        return check(ip_address(host)) is None
    return "." in host and host.rpartition(".")[2] not in SPECIAL


def format_rules(scope: Scope) -> tuple[str, ...]:
    proxy = [f"through the SOCKS5 proxy {scope.proxy.host}:{scope.proxy.port}"] if scope.proxy is not None else []
    return (*map(rule_text, scope.rules), *([rule_text(_ANYWHERE)] if scope.anywhere else []), *proxy)


def _explain_rules(who: str, index: Index, view: RequestView, decided: Rule | None) -> list[str]:
    named = set(map(id, index.match_host(view.target.host)))
    lines = []
    for each in index.all:
        why = each.explain_mismatch(view) if id(each) in named else "the rule is for another host"
        last = "decides" if each.rule == decided else "the rule matches, but a more specific rule decides"
        lines.append(f"{who}{rule_text(each.rule)}: {why or last}")
    return lines


def find_beyond_ceiling(scope: Scope, ceiling: Iterable[Rule]) -> tuple[str, ...]:
    """Return the rules and grants, as text, that the operator's ceiling does not admit."""
    top = Policy(ceiling)
    if not top.rules:
        return ()
    rules = [rule_text(rule) for rule in scope.rules if rule.verdict != "deny" and not can_overlap(rule, top)]
    grants = [f"{each.secret}@{each.host}" for each in scope.grants if not top.can_reach("https", each.host, each.port)]
    return (*rules, *grants)


def can_overlap(rule: Rule, top: Policy) -> bool:
    rule = replace(check_rule(rule), step="")
    if not (rule.host.startswith("*.") or "/" in rule.host):
        return any(meets(rule, end, top) for end in _list_ends(rule))
    others = (top.tunnels if rule.tunnel else top.index).all
    return any(
        each.rule.verdict != "deny" and each.ends & _list_ends(rule) and _has_shared_host(rule.host, each.rule.host)
        for each in others
    )


def meets(rule: Rule, end: End, top: Policy) -> bool:
    scheme, port = end
    if rule.tunnel:
        return top.tunnel(rule.host, port) is not None
    methods = compile_rule(rule).methods
    admits = any(
        each.rule.verdict != "deny" and end in each.ends and (each.methods & methods or each.every)
        for each in top.index.match_host(rule.host)
    )
    return admits and top.index.open((scheme, port), rule.host)


def _has_shared_host(one: str, other: str) -> bool:
    if is_address(one) or is_address(other):
        return is_address(one) and is_address(other) and _has_shared_address(ip_network(one), ip_network(other))
    if one.startswith("*.") and other.startswith("*."):
        return one == other or one.endswith(other[1:]) or other.endswith(one[1:])
    wide, narrow = (one, other) if one.startswith("*.") else (other, one)
    return narrow.endswith(wide[1:]) if wide.startswith("*.") else wide == narrow


def _has_shared_address(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)
