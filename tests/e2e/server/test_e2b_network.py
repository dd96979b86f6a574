"""Tests of E2B programs' network rules, enforced by a real desk's door: curl inside, a server on loopback outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.api.e2b.network import redact, resolve_scope
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.settings import Egress, Serving
from hotdesk.brief import compute_digest, scope_json
from hotdesk.config import Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.door.http.ca import get_utc_now, new_authority
from hotdesk.door.policy.policy import Policy
from hotdesk.door.policy.scope import scope_of
from hotdesk.door.policy.target import Target
from hotdesk.drive.journal import FILE
from hotdesk.errors import BriefError
from hotdesk.host import Host
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

SECRET = "a-value-that-nobody-inside-may-see"
ALL = "0.0.0.0/0"
ONLY_API: Mapping[str, object] = {"allowOut": ["api.erp.test"], "denyOut": [ALL]}
WITH_HEADER: Mapping[str, object] = {
    **ONLY_API,
    "rules": {"api.erp.test": [{"transform": {"headers": {"Authorization": f"Bearer {SECRET}"}}}]},
}
ONE_LINE = new_authority("proxy", get_utc_now()).certificate_pem.decode().replace("\n", "")
"""A certificate whose PEM some libraries read and OpenSSL, which the door uses, does not."""


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Upstream]:
    with upstream(tmp_path, "api.erp.test", "other.erp.test") as found:
        yield found


@pytest.fixture
async def host(settings: Config, outside: Upstream) -> AsyncIterator[Host]:
    names = {"api.erp.test": outside.address, "other.erp.test": outside.address}
    async with Host(replace(settings, ca=str(outside.ca), names=names), control=False) as found:
        yield found


async def status(desk: Desk, url: str) -> str:
    """Request a URL inside; return the status, 000 for none."""
    argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", url]
    return (await desk.run(argv)).text


async def test_only_allowed_hosts_are_reached(host: Host) -> None:
    async with host.open_desk(Spec(), resolve_scope(Serving(), ONLY_API)) as desk:
        assert await status(desk, "https://api.erp.test/") == "200"
        assert await status(desk, "https://other.erp.test/") == "000"


async def test_an_attached_header_is_unreadable_inside(host: Host, outside: Upstream, settings: Config) -> None:
    async with host.open_desk(Spec(), resolve_scope(Serving(), WITH_HEADER)) as desk:
        said = await desk.run(["curl", "-s", "https://api.erp.test/", "-H", "Authorization: Bearer my-own"])
        assert outside.seen[-1].header("authorization") == f"Bearer {SECRET}"
        assert SECRET not in said.text
        everything = await desk.run(["sh", "-c", "env; cat /proc/*/environ; curl -s http://door.local/policy"])
        assert SECRET not in everything.text
    written = b"".join(path.read_bytes() for path in settings.lib.rglob(f"{FILE}*") if path.is_file())
    assert written
    assert SECRET.encode() not in written


async def test_changed_network_rules_apply_to_an_open_desk(host: Host, outside: Upstream) -> None:
    async with host.open_desk(Spec(), resolve_scope(Serving(), None, False)) as desk:
        assert await status(desk, "https://api.erp.test/") == "000"
        await host.change_scope(desk.id, resolve_scope(Serving(), WITH_HEADER))
        assert await status(desk, "https://api.erp.test/") == "200"
        assert outside.seen[-1].header("authorization") == f"Bearer {SECRET}"
        await host.change_scope(desk.id, resolve_scope(Serving(), ONLY_API))
        assert await status(desk, "https://api.erp.test/") == "200"
        assert outside.seen[-1].header("authorization") is None
        await host.change_scope(desk.id, resolve_scope(Serving(), None, False))
        assert await status(desk, "https://api.erp.test/") == "000"


async def test_a_change_of_rules_cuts_open_connections(host: Host) -> None:
    asked = "CONNECT api.erp.test:443 HTTP/1.1\\r\\nHost: api.erp.test:443\\r\\n\\r\\n"
    keep = f"exec 3<>/dev/tcp/127.0.0.1/3128; printf '{asked}' >&3; head -c 39 <&3; echo ready >&2; cat <&3; echo over"
    async with host.open_desk(Spec(), resolve_scope(Serving(), ONLY_API)) as desk:
        process = await desk.start(["bash", "-c", keep])
        async for stream, _ in process.output():
            if stream == "stderr":
                break
        await host.change_scope(desk.id, resolve_scope(Serving(), None, False))
        assert (await process.wait()).exit_code == 0


async def test_a_desk_without_egress_gets_none_later(host: Host) -> None:
    async with host.open_desk(Spec()) as desk:
        with pytest.raises(BriefError, match="without a door"):
            await host.change_scope(desk.id, resolve_scope(Serving(), ONLY_API))


# -- E2B's network options as rules ---------------------------------------------------------------------------------


def reaches(url: str, egress: Egress, network: Mapping[str, object] | None, internet: bool | None = None) -> bool:
    scope = resolve_scope(Serving(egress=egress), network, internet)
    scheme, _, host = url.partition("://")
    name, _, port = host.partition(":")
    target = Target(scheme, name, int(port or (443 if scheme == "https" else 80)), "GET", "/")  # type: ignore[arg-type]
    return Policy(scope.rules, anywhere=scope.anywhere).judge(target).verdict == "allow"


def index() -> str:
    rule = scope_of(["pypi"]).rules[0]
    return f"{rule.scheme or 'https'}://{rule.host}" + (f":{rule.port}" if rule.port else "")


@pytest.mark.parametrize(
    ("url", "egress", "network", "internet", "expected"),
    [
        ("INDEX", "packages", None, None, True),
        ("INDEX", "deny", None, None, False),
        ("INDEX", "packages", None, False, False),
        ("INDEX", "packages", {"denyOut": [ALL]}, None, False),
        ("https://example.com", "packages", None, None, False),
        ("https://example.com", "packages", None, True, False),
        ("https://example.com", "open", None, None, True),
        ("https://example.com:8443", "open", None, None, True),
        ("https://example.com", "open", None, False, False),
        ("https://example.com", "open", {"denyOut": [ALL]}, None, False),
        ("https://example.com", "deny", {"allowOut": ["example.com"], "denyOut": [ALL]}, None, True),
        ("https://a.example.com", "deny", {"allowOut": ["*.example.com"], "denyOut": [ALL]}, None, True),
        ("https://b.example.com", "deny", {"allowOut": ["a.example.com"], "denyOut": [ALL]}, None, False),
        ("http://8.8.8.8", "open", {"denyOut": ["8.8.8.8"]}, None, False),
        ("http://8.8.8.8:8080", "open", {"denyOut": ["8.0.0.0/8"]}, None, False),
        ("http://8.8.4.4", "open", {"denyOut": ["8.8.8.8"]}, None, True),
        ("http://8.8.8.8", "open", {"denyOut": ["0.0.0.0/1"]}, None, False),
        ("http://8.8.8.8", "open", {"denyOut": ["8.8.8.8"], "allowOut": ["8.8.0.0/16"]}, None, True),
        ("http://8.8.8.8", "deny", {"allowOut": ["8.8.8.8"]}, None, True),
        ("http://8.8.8.8", "deny", {"allowOut": ["8.8.8.8"]}, False, True),
        ("http://8.8.4.4", "open", {"allowOut": [ALL]}, None, True),
        ("http://127.0.0.1", "open", None, None, False),
        ("http://10.0.0.1", "open", None, None, False),
        ("http://169.254.169.254", "open", None, None, False),
        ("http://localhost", "open", None, None, False),
        ("http://printer.local", "open", None, None, False),
        ("http://door", "open", None, None, False),
    ],
)  # fmt: skip
def test_network_options_mean_the_same_as_e2bs(
    url: str, egress: Egress, network: Mapping[str, object] | None, internet: bool | None, expected: bool
) -> None:
    assert reaches(index() if url == "INDEX" else url, egress, network, internet) is expected


def test_an_address_that_is_denied_is_denied_by_every_name() -> None:
    scope = resolve_scope(Serving(egress="open"), {"denyOut": ["8.8.8.0/24"], "allowOut": ["8.8.8.8"]})
    policy = Policy(scope.rules, anywhere=scope.anywhere)
    assert [policy.bars(address) for address in ("8.8.8.9", "8.8.8.8", "8.8.4.4")] == [True, False, False]


@pytest.mark.parametrize(
    ("network", "code", "why"),
    [
        ({"allowOut": ["example.com"]}, 400, "0.0.0.0/0"),
        ({"allowOut": [ALL]}, 400, "whole internet"),
        ({"allowOut": ["127.0.0.1"]}, 400, "operator"),
        ({"allowOut": ["127.0.0.0/8"]}, 400, "operator"),
        ({"allowOut": ["10.1.2.3"]}, 400, "operator"),
        ({"allowOut": ["169.254.169.254"]}, 400, "operator"),
        ({"allowOut": ["::1"]}, 400, "operator"),
        ({"allowOut": ["128.0.0.0/1"]}, 400, "operator"),
        ({"allowOut": ["*"], "denyOut": [ALL]}, 400, "cannot be applied"),
        ({"allowOut": ["*.com"], "denyOut": [ALL]}, 400, "cannot be applied"),
        ({"denyOut": ["example.com"]}, 400, "denyOut"),
        ({"dnsServers": ["example.com"]}, 400, "dnsServers"),
        ({"dnsServers": ["1.1.1.1"] * 11}, 400, "dnsServers"),
        ({"egressProxy": {"address": "127.0.0.1:1080"}}, 400, "not a public internet address"),
        ({"egressProxy": {"address": "169.254.169.254:80"}}, 400, "not a public internet address"),
        ({"egressProxy": {"address": "proxy.example.com"}}, 400, "host and a port"),
        ({"egressProxy": {"address": "*.example.com:1080"}}, 400, "cannot be applied"),
        ({"egressProxy": {"address": "a.com:1080", "password": "b"}}, 400, "but no username"),
        ({"egressProxy": {"address": "a.com:1080", "tls": {"enabled": True, "caCert": "x"}}}, 400, "PEM"),
        ({"egressProxy": {"address": "a.com:1080", "tls": {"enabled": True, "caCert": ONE_LINE}}}, 400, "PEM"),
        ({"egressProxy": {}}, 400, "egressProxy"),
        ({"rules": {"*.example.com": [{"transform": {"headers": {"X-A": "b"}}}]}}, 400, "pattern"),
        ({"rules": {"a.com": [{"transform": {"headers": {"Host": "b"}}}]}}, 400, "cannot be applied"),
        ({"rules": {"a.com": [{"transform": {"headers": {"X-A": "b\r\nX-B: c"}}}]}}, 400, "headers cannot contain"),
        ({"rules": {"a.com": [{"transform": {"headers": {"X-A": "${e2b.identity.tokens.a}"}}}]}}, 400, "has no token"),
        ({"rules": {"a.com": [{"transform": {"headers": {"X-A": "${e2b.other.a}"}}}]}}, 400, "unknown placeholder"),
        ({"rules": {"a.com": [{"transform": {"headers": {"X-A": "${e2b.secrets.a}${e2b.secrets.b}"}}}]}}, 400, "more"),
        ({"maskRequestHost": "a\r\nb"}, 400, "maskRequestHost"),
        ({"allowOut": "example.com"}, 400, "allowOut"),
        ({"allowOut": ["1.1.1.1"] * 201}, 400, "allowOut"),
    ],
)  # fmt: skip
def test_unsupported_network_options_are_refused_with_a_reason(
    network: Mapping[str, object], code: int, why: str
) -> None:
    with pytest.raises(E2bError, match=why) as refused:
        resolve_scope(Serving(), network)
    assert refused.value.status == code


def test_header_values_are_never_shown() -> None:
    scope = resolve_scope(Serving(), WITH_HEADER)
    assert SECRET not in repr(scope) + scope_json(scope) + str(redact(WITH_HEADER))
    assert compute_digest(scope) == compute_digest(replace(scope, values={}))
