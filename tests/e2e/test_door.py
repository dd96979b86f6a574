"""Tests of the door from inside a real desk, with other projects' clients."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from hotdesk.brief import Scope, parse_rule
from hotdesk.config import Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Spec
from hotdesk.host import Host
from hotdesk.linux import uids
from tests.upstream import upstream

pytestmark = pytest.mark.container
CURL = ["curl", "-sS", "-i", "--max-time", "20", "-x", "http://127.0.0.1:3128"]


def doors(host: Host) -> list[int]:
    assert isinstance(host.runtime, KeeperRuntime)
    keeper = f"\nPPid:\t{host.runtime.keeper.pid}\n"
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "status").read_text()
            except OSError:
                continue
            if f"\nUid:\t{uids.DOOR}\t" in status and keeper in status:
                found.append(int(entry.name))
    return found


async def test_every_request_is_refused_with_a_reason(settings: Config) -> None:
    async with Host(settings, control=False) as host, host.open_desk() as desk:
        plain = await desk.run([*CURL, "http://example.test/data?x=1"])
        head, _, body = plain.text.partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 403 ")
        told = json.loads(body)
        assert told["refused"].startswith("GET http://example.test/data")
        assert {"rule", "allowed", "ask"} <= set(told)
        tunnel = await desk.run([*CURL, "https://example.test/"])
        assert "403" in tunnel.text + tunnel.stderr.decode()


async def test_the_door_has_a_user_of_its_own_and_no_privilege(settings: Config) -> None:
    async with Host(settings, control=False) as host, host.open_desk() as desk:
        assert doors(host) == []
        await desk.run([*CURL, "http://example.test/"])
        (door,) = doors(host)
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{door}/status").read_text().splitlines() if ":\t" in line
        )
        assert status["CapEff"] == status["CapPrm"] == "0" * 16
        assert status["NoNewPrivs"] == "1"
        assert status["Groups"].strip() == ""


async def test_background_processes_have_names_in_ps(settings: Config) -> None:
    async with Host(settings, control=False) as host, host.open_desk() as desk:
        await desk.run([*CURL, "http://example.test/"])
        keeper = host.get_keeper_runtime().keeper.pid
        pids = [keeper, *doors(host)]
        done = await anyio.run_process(["ps", "-o", "comm=", "-p", ",".join(map(str, pids))])
        assert sorted(done.stdout.split()) == [b"hotdesk-door", b"hotdesk-keeper"]


async def test_a_dead_door_is_replaced_and_no_program_inside_can_impersonate_it(settings: Config) -> None:
    take = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 3128))"
    async with Host(settings, control=False) as host, host.open_desk() as desk:
        await desk.run([*CURL, "http://example.test/"])
        os.kill(doors(host)[0], signal.SIGKILL)
        assert b"Address already in use" in (await desk.run(["python3", "-c", take])).stderr
        assert "403" in (await desk.run([*CURL, "http://example.test/"])).text


async def test_hostile_bytes_at_the_gate_do_no_harm(settings: Config) -> None:
    shout = (
        "import socket, os\n"
        "for data in (b'', b'\\0' * 70000, b'GET / HTTP/1.1\\r\\n' + b'a: b\\r\\n' * 5000, os.urandom(40000),\n"
        "             b'GET /\\x1b[31m\\xff HTTP/1.1\\r\\n\\r\\n'):\n"
        "    s = socket.create_connection(('127.0.0.1', 3128)); s.settimeout(15)\n"
        "    try: s.sendall(data); s.shutdown(1)\n"
        "    except OSError: pass\n"
        "    try: print(len(s.recv(100)))\n"
        "    except OSError: print('reset')\n"
    )
    async with Host(settings, control=False) as host, host.open_desk() as desk:
        done = await desk.run(["python3", "-c", shout], timeout=100)
        assert done.ok, done.stderr
        assert "403" in (await desk.run([*CURL, "http://example.test/"])).text


@pytest.mark.long
async def test_traffic_through_the_door_counts_as_activity(settings: Config, tmp_path: Path) -> None:
    with upstream(tmp_path, "erp.test") as server:
        scope = Scope(rules=(parse_rule("erp.test"),), names={"erp.test": server.address})
        open_to = replace(settings, ca=str(server.ca))
        calls = "for i in $(seq 16); do curl -sS -o /dev/null https://erp.test/; sleep 0.5; done"
        async with Host(open_to, control=False) as host:
            desk = await host.open(Spec(idle=5), scope)
            process = await desk.start(["sh", "-c", calls])
            await process.detach()
            assert isinstance(host.runtime, KeeperRuntime)
            await anyio.sleep(7)
            assert desk.id in host.runtime.list_live()
            with anyio.fail_after(60):
                while desk.id in host.runtime.list_live():
                    await anyio.sleep(0.2)
            assert len(server.seen) == 16
            assert "idle" in host.runtime.keeper.ended[desk.id]


async def test_a_step_has_its_own_rules_and_cuts_earlier_connections(settings: Config, tmp_path: Path) -> None:
    with upstream(tmp_path, "erp.test") as server:
        rules = (parse_rule("erp.test/one step=one"), parse_rule("erp.test/two step=two"))
        scope = Scope(rules=rules, names={"erp.test": server.address})
        status = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]
        open_to = replace(settings, ca=str(server.ca))
        async with Host(open_to, control=False) as host, host.open_desk(scope=scope) as desk:
            answers = {}
            for step in ("one", "two"):
                await host.doors.enter_step(desk.id, step)
                for path in ("one", "two"):
                    done = await desk.run([*status, f"https://erp.test/{path}"], timeout=30)
                    answers[step, path] = done.text
        assert answers == {("one", "one"): "200", ("one", "two"): "403", ("two", "one"): "403", ("two", "two"): "200"}
