"""Tests of a sandbox with a SOCKS5 proxy: its requests use it once they are admitted, and never bypass it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2b import AsyncSandbox, Sandbox, SandboxException

from hotdesk.drive.journal import FILE
from tests.e2e.server.conftest import Served, served
from tests.socks_server import SocksServer, socks_server
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(120)]
PASSWORD = "a-password-that-nobody-reads-back"
ASK = "curl -s -o /dev/null -w '%{http_code}' --max-time 20 "


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with upstream(tmp_path_factory.mktemp("upstream"), "api.erp.test", "proxy.erp.test") as found:
        yield found


@pytest.fixture(scope="module")
def plain(outside: Upstream) -> Iterator[SocksServer]:
    names = {"api.erp.test": outside.address}
    with socks_server(names=names, credentials=("tenant", PASSWORD)) as found:
        yield found


@pytest.fixture(scope="module")
def secured(outside: Upstream) -> Iterator[SocksServer]:
    with socks_server(outside.ca.with_name("upstream.pem"), names={"api.erp.test": outside.address}) as found:
        yield found


@pytest.fixture(scope="module")
def server(home: Path, outside: Upstream, plain: SocksServer, secured: SocksServer) -> Iterator[Served]:
    names = f'{{"plain.erp.test" = "{plain.address}", "proxy.erp.test" = "{secured.address}"}}'
    config = f'[door]\nca = "{outside.ca}"\nnames = {names}\n[serve]\nready = {{}}\n'
    with served(home / f"proxy-{time.monotonic_ns()}", config=config) as found:
        yield found


def network(proxy: dict[str, Any] | None) -> Any:
    allowed = {"allow_out": ["api.erp.test"], "deny_out": ["0.0.0.0/0"]}
    return {**allowed, "egress_proxy": proxy} if proxy else allowed


def test_requests_go_out_by_a_proxy_with_a_password(server: Served, plain: SocksServer, outside: Upstream) -> None:
    proxy = {"address": "plain.erp.test:1080", "username": "tenant", "password": PASSWORD}
    sandbox = Sandbox.create(network=network(proxy), **server.e2b)
    try:
        assert sandbox.commands.run(f"{ASK} https://api.erp.test/").stdout == "200"
        assert (plain.requests[-1], plain.users[-1]) == ((3, "api.erp.test", 443), ("tenant", PASSWORD))
        assert outside.seen[-1].header("host") == "api.erp.test"
        before = len(plain.requests)
        with pytest.raises(SandboxException):
            sandbox.commands.run(f"{ASK} https://other.erp.test/")
        assert len(plain.requests) == before
        info = sandbox.get_info().network
        assert info is not None
        assert info["egress_proxy"] == {"address": "plain.erp.test:1080", "username": "tenant"}
        inside = sandbox.commands.run("env; cat /proc/*/environ 2>/dev/null; curl -s http://door.local/policy || true")
        assert PASSWORD not in inside.stdout
        sandbox.update_network(network(None))
        assert sandbox.commands.run(f"{ASK} https://api.erp.test/").stdout == "502"
    finally:
        sandbox.kill()
    written = b"".join(path.read_bytes() for path in server.settings.lib.rglob(f"{FILE}*") if path.is_file())
    assert written
    assert PASSWORD.encode() not in written


def test_a_proxy_is_reached_over_tls(server: Served, secured: SocksServer, outside: Upstream) -> None:
    authority = outside.ca.read_text()
    for tls in (True, {"ca_cert": authority}, {"ca_cert": authority, "server_name": "api.erp.test"}):
        proxy = {"address": "proxy.erp.test:1080", "tls": tls}
        with Sandbox.create(network=network(proxy), **server.e2b) as sandbox:
            assert sandbox.commands.run(f"{ASK} https://api.erp.test/").stdout == "200"
            assert secured.requests[-1] == (3, "api.erp.test", 443)


@pytest.mark.parametrize(
    "proxy",
    [
        {"address": "plain.erp.test:1080", "username": "tenant", "password": "wrong"},
        {"address": "plain.erp.test:1080"},
        {"address": "plain.erp.test:1080", "tls": True},
        {"address": "proxy.erp.test:1080"},
        {"address": "proxy.erp.test:1080", "tls": {"server_name": "other.erp.test"}},
        {"address": "nowhere.invalid:1080"},
    ],
)
async def test_a_proxy_that_does_not_connect_lets_nothing_out(
    server: Served, outside: Upstream, proxy: dict[str, Any]
) -> None:
    before = len(outside.seen)
    async with await AsyncSandbox.create(network=network(proxy), **server.e2b) as sandbox:
        assert (await sandbox.commands.run(f"{ASK} https://api.erp.test/")).stdout == "502"
    assert len(outside.seen) == before


def test_a_proxy_in_a_private_network_is_refused(server: Served) -> None:
    for address in ("127.0.0.1:1080", "10.0.0.1:1080", "169.254.169.254:80", "[::1]:1080"):
        with pytest.raises(SandboxException, match=r"400.*not a public internet address"):
            Sandbox.create(network=network({"address": address}), **server.e2b)
