"""Translates the network options of an E2B program into the scope that its desk's door enforces.

Only HTTP(S) passes, whatever is allowed. Domains that are allowed are reached at ports 80 and 443. Header transforms
are for one host each, over https; their values stay outside the desk.
"""

# ruff: noqa: N815 - E2B names its fields so
from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import AfterValidator, Field, ValidationError

from hotdesk.api.e2b.egress_proxy import ProxyConfig, build_proxy, redact_proxy
from hotdesk.api.e2b.identity import build_tokens
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.transforms import MAX_HEADERS, Attached, LenientModel, Tokens, Word, attach, list_secret_names
from hotdesk.api.scopes import run_in_thread
from hotdesk.api.settings import Serving
from hotdesk.brief.data import ANY, Rule, Scope
from hotdesk.brief.rules import check_rule
from hotdesk.door.policy.address import METADATA, SPECIAL
from hotdesk.door.policy.scope import scope_of
from hotdesk.errors import BriefError

if TYPE_CHECKING:
    from hotdesk.api.e2b.sandboxes import Sandbox

Network: TypeAlias = IPv4Network | IPv6Network
EVERYTHING = frozenset({"0.0.0.0/0", "::/0"})
NOWHERE = Rule("nowhere.invalid", verdict="deny", methods=ANY)
"""Part of every scope, so that each sandbox has a door: one without egress may get rules later."""
PRESETS = ("pypi", "npm", "debian")
_NO_TOKENS: Tokens = {}
Words = Annotated[list[Word], Field(max_length=200)]


def _require_ipv4(text: str) -> str:
    return str(IPv4Address(text))


class NetworkConfig(LenientModel):
    """Network options, as a program sends them."""

    allowPublicTraffic: bool | None = None
    allowOut: Words | None = None
    denyOut: Words | None = None
    dnsServers: Annotated[list[Annotated[str, AfterValidator(_require_ipv4)]], Field(max_length=10)] | None = None
    egressProxy: ProxyConfig | None = None
    httpsPorts: Annotated[list[Annotated[int, Field(ge=1, le=65535)]], Field(max_length=100)] | None = None
    maskRequestHost: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9.:${}_\-\[\]]*$")] | None = None
    rules: Annotated[dict[Word, list[Attached]], Field(max_length=MAX_HEADERS)] | None = None


def resolve_scope(
    serving: Serving,
    network: Mapping[str, object] | None = None,
    allow_internet_access: bool | None = None,
    tokens: Tokens = _NO_TOKENS,
) -> Scope:
    """Return a sandbox's scope: its program's options, and where there are none the operator's setting.

    It may wait for this machine's resolver: where an event loop runs, use `find_scope`. `dnsServers` has no effect:
    desks use no name server, and the door resolves the names that are allowed.
    """
    config = read(network or {})
    allowed, denied = list(config.allowOut or ()), list(config.denyOut or ())
    shut = allow_internet_access is False or not EVERYTHING.isdisjoint(denied)
    if EVERYTHING.isdisjoint(denied) and any(_parse_network(each) is None for each in allowed):
        raise E2bError(400, "if allowOut has host names, denyOut must have 0.0.0.0/0, which denies all other traffic")
    whole = not EVERYTHING.isdisjoint(allowed)
    if whole and serving.egress != "open":
        raise E2bError(
            400, "this server does not let sandboxes reach the whole internet; list single hosts in allowOut"
        )
    try:
        rules = (NOWHERE, *_make_allow_rules(allowed), *_make_deny_rules(denied, allowed))
        attached = attach(config.rules or {}, tokens)
        proxy, password = build_proxy(config.egressProxy) if config.egressProxy is not None else (None, {})
    except BriefError as e:
        raise E2bError(400, f"these network settings cannot be applied: {e}") from None
    if not shut and serving.egress == "packages":
        rules = (*rules, *list_package_rules()[0])
    opened = whole or (not shut and serving.egress == "open")
    return Scope(
        tuple(dict.fromkeys(rules)), tuple(attached.grants), may_ask=False, anywhere=opened, tokens=attached.tokens,
        proxy=proxy, values={**attached.values, **password},
    )  # fmt: skip


def list_package_rules() -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Return the rules for packages, and why some are missing: a machine may have no npm, or no web archive."""
    rules: list[Rule] = []
    reasons: list[str] = []
    for name in PRESETS:
        try:
            rules += scope_of((name,)).rules
        except BriefError as e:
            reasons.append(f"{name}: {e}")
    return tuple(rules), tuple(reasons)


async def find_scope(
    serving: Serving,
    network: Mapping[str, object] | None = None,
    allow_internet_access: bool | None = None,
    tokens: Tokens = _NO_TOKENS,
) -> Scope:
    """Return a sandbox's scope like `resolve_scope`, which runs in a thread."""
    return await run_in_thread(resolve_scope, serving, network, allow_internet_access, tokens)


async def change(
    serving: Serving, sandbox: Sandbox, network: Mapping[str, object], allow_internet_access: bool | None = None
) -> None:
    """Replace a live sandbox's network rules; unmentioned ones are cleared."""
    unchanged = {name: value for name, value in (sandbox.network or {}).items() if name in _INGRESS}
    tokens = build_tokens(serving, sandbox.tenant.name, sandbox.iam)
    scope = await find_scope(serving, network, allow_internet_access, tokens)
    try:
        await sandbox.tenant.host.change_scope(sandbox.desk.id, scope, "its program")
    except BriefError as e:
        raise E2bError(400, str(e)) from None
    sandbox.scope = scope
    sandbox.network = {**redact(network), **unchanged}


_INGRESS = ("allowPublicTraffic", "maskRequestHost", "httpsPorts")
"""Options for requests into a sandbox; updates do not change them."""


def read(network: Mapping[str, object]) -> NetworkConfig:
    """Parse a program's network options; errors do not quote them."""
    try:
        return NetworkConfig.model_validate(network)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"][:2])
        raise E2bError(400, f"invalid network settings at {place[:100]!r}: {first['msg']}") from None


def list_secrets(network: Mapping[str, object]) -> set[str]:
    return list_secret_names(read(network).rules or {})


def redact(network: Mapping[str, object]) -> dict[str, object]:
    """Return network options without secrets: the values of headers, and those of the proxy."""
    redacted, config = dict(network), read(network)
    if config.egressProxy is not None:
        redacted["egressProxy"] = redact_proxy(config.egressProxy)
    if config.rules:
        redacted["rules"] = {
            host: [{"transform": {"headers": dict.fromkeys(each.transform.headers, "***")}} for each in attached
                   if each.transform]
            for host, attached in config.rules.items()
        }  # fmt: skip
    return redacted


# -- allowOut, denyOut ------------------------------------------------------------------------------------------------


def _parse_network(text: str) -> Network | None:
    """Parse an address or a network; `None` for a name."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _make_allow_rules(entries: Sequence[str]) -> list[Rule]:
    return [check_rule(Rule(check_public(each), methods=ANY)) for each in entries if each not in EVERYTHING]


def check_public(entry: str) -> str:
    """Return a host or network that a program may name; only the operator may allow those that are not public."""
    found = _parse_network(entry)
    if found is None:
        return entry
    near = [special for special, _ in SPECIAL if special.version == found.version and special.overlaps(found)]
    if near or any(address in found for address in METADATA if address.version == found.version):
        raise BriefError(f"{found} is not a public internet address; only this server's operator can allow it")
    return str(found)


def _make_deny_rules(entries: Sequence[str], allowed: Sequence[str]) -> list[Rule]:
    """Return the rules for denied targets; allowed ones take precedence, even if they are wider."""
    wins = [found for each in allowed if each not in EVERYTHING and (found := _parse_network(each)) is not None]
    rules: list[Rule] = []
    for each in entries:
        if each in EVERYTHING:
            continue
        if (found := _parse_network(each)) is None:
            raise BriefError(f"denyOut takes IP addresses and networks only; {each[:80]!r} is neither")
        if not any(covers(wide, found) for wide in wins):
            rules += [check_rule(Rule(str(part), verdict="deny", methods=ANY)) for part in _split_network(found)]
    return rules


def covers(wide: Network, narrow: Network) -> bool:
    return wide.version == narrow.version and narrow.subnet_of(wide)  # type: ignore[arg-type]


def _split_network(found: Network) -> list[Network]:
    """Return a network in parts no wider than a rule may name."""
    widest = 8 if found.version == 4 else 7
    return list(found.subnets(new_prefix=widest)) if found.prefixlen < widest else [found]
