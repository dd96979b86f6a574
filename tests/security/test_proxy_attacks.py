"""Attacks with a sandbox's own SOCKS5 proxy: reaching internal addresses, or the network without the proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brief.data import EgressProxy, Rule, Scope
from hotdesk.config import Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import BriefError
from hotdesk.host import Host
from tests.security.guards import Removal, falls_without
from tests.socks_server import SocksServer, socks_server
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(120)]
RULES = (Rule("api.erp.test"), Rule("direct.erp.test"), Rule("192.0.2.0/24", verdict="deny", methods=("*",)))


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Upstream]:
    with upstream(tmp_path, "api.erp.test", "direct.erp.test") as found:
        yield found


@pytest.fixture
def proxy(outside: Upstream) -> Iterator[SocksServer]:
    with socks_server(names={"api.erp.test": outside.address}) as found:
        yield found


@pytest.fixture
async def host(settings: Config, outside: Upstream) -> AsyncIterator[Host]:
    async with Host(replace(settings, ca=str(outside.ca)), control=False) as found:
        yield found


async def status(desk: Desk, url: str) -> str:
    """Request a URL from inside; return the status."""
    way = ["--noproxy", "", "--proxy", "http://127.0.0.1:3128"]
    argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", *way, url]
    return (await desk.run(argv)).text


@falls_without(
    "egress proxy: it stands on the internet",
    Removal("http/upstream.py", 'proxy.port, False, "", names)', "proxy.port, True, proxy.host, names)"),
)
async def test_a_proxy_address_on_this_machine_is_not_called(host: Host, proxy: SocksServer) -> None:
    scope = Scope(RULES, may_ask=False, proxy=EgressProxy("127.0.0.1", proxy.port))
    async with host.open_desk(Spec(), scope) as desk:
        assert await status(desk, "https://api.erp.test/") == "502"
    assert proxy.requests == []


@falls_without(
    "egress proxy: nothing goes beside it",
    Removal("http/upstream.py", "                if proxy is None or host in names:\n", "                if True:\n"),
)
async def test_no_request_bypasses_a_proxy_that_does_not_answer(host: Host, tmp_path: Path) -> None:
    with upstream(tmp_path, "plain.erp.test", tls=False) as plain:
        way = Rule("127.0.0.1", scheme="http", port=plain.port, private=True)
        scope = Scope((way,), may_ask=False, proxy=EgressProxy("nowhere.invalid", 1080))
        async with host.open_desk(Spec(), scope) as desk:
            assert await status(desk, f"http://127.0.0.1:{plain.port}/") == "502"
        assert plain.seen == []


@falls_without(
    "egress proxy: the operator's ceiling holds for it",
    Removal("keys/doors.py", "        if self.settings.ceiling and scope.proxy is not None:\n", "        if False:\n"),
)
async def test_a_proxy_beyond_the_operators_ceiling_is_refused(settings: Config) -> None:
    scope = Scope((Rule("api.erp.test"),), may_ask=False, proxy=EgressProxy("proxy.evil.test", 1080))
    async with Host(replace(settings, ceiling=("api.erp.test",)), control=False) as host:
        with pytest.raises(BriefError, match="ceiling"):
            async with host.open_desk(Spec(), scope):
                pass
