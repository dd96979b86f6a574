"""Tests of a desk without egress: programs that look for a network fail at once, and say why."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import anyio
import pytest

from hotdesk.brief import Scope, parse_rule
from hotdesk.config import Config
from hotdesk.desk import door_files
from hotdesk.desk.login_shell import NO_EGRESS
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

SERVE = "import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8000, bind='0.0.0.0')"
SCOPE = Scope(rules=(parse_rule("read erp.test/**"),), names={"erp.test": "127.0.0.1:9"})


@pytest.fixture(scope="module")
async def desk(settings: Config) -> AsyncIterator[Desk]:
    async with Host(settings) as host, host.open_desk(Spec(image="desktop", root=True)) as desk:
        await desk.run(["true"], user="root")  # root's guest stays as long as the desk, which all tests share
        yield desk


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("curl -sS https://example.test/", "curl: (5) Could not resolve proxy: "),
        ("curl -sS http://example.test/", "curl: (5) Could not resolve proxy: "),
        ("pip download six", "Looking in indexes: "),
        ("git ls-remote https://example.test/x", "fatal: unable to access 'https://example.test/x/': "),
        ("npm view left-pad 2>&1 | grep reason", "npm"),
        ("sudo apt-get update 2>&1 | grep ^W", "W: Failed to fetch "),
    ],
)
async def test_a_program_that_looks_for_a_network_says_why_there_is_none(desk: Desk, command: str, first: str) -> None:
    done = await desk.run(["bash", "-c", command], timeout=60)
    line = (done.stdout + done.stderr).decode().splitlines()[0]
    assert line.startswith(first)
    assert NO_EGRESS in line


async def test_pip_tries_once(desk: Desk) -> None:
    async def cpu_free_seconds(command: str) -> float:
        """Return how long a command waits without using the CPU."""
        start = time.monotonic()
        done = await desk.run(["bash", "-c", f"TIMEFORMAT='%U %S'; time {command} >/dev/null 2>/dev/null"], timeout=60)
        worked = sum(map(float, done.stderr.split()[-2:]))
        return time.monotonic() - start - worked

    quick, patient = [await cpu_free_seconds(f"pip download {option} six") for option in ("", "--retries 4")]
    assert patient - quick > 2, "with its usual retries it waits for seconds between them"


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "0.0.0.0", "127.0.0.5"])
async def test_servers_inside_are_still_reachable(desk: Desk, address: str) -> None:
    server = await desk.start(["python3", "-c", SERVE])
    try:
        with anyio.fail_after(30):
            while not (done := await desk.run(["curl", "-sS", f"http://{address}:8000/"])).ok:
                assert b"Could not resolve" not in done.stderr
    finally:
        await server.kill()


@pytest.mark.sample(1)
@pytest.mark.parametrize("spares", [0, 1])
async def test_a_desk_with_egress_has_none_of_these_settings(settings: Config, spares: int) -> None:
    async with Host(settings) as host:
        host.keep_ready(Spec(), spares)
        with anyio.fail_after(60):
            await host.pool.wait_until_full()
        async with host.open_desk(Spec(), SCOPE) as desk:
            env = (await desk.run(["env"])).text
            assert NO_EGRESS not in env
            assert door_files.APT_CLOSED not in env
            assert "PIP_RETRIES" not in env
            assert f"https_proxy={door_files.PROXY}\n" in env
