"""Tests of how a server ends: stopped once, stopped twice, killed, or without its keeper; nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from e2b import Sandbox
from e2b.exceptions import NotFoundException
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.conftest import settings_in
from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server import job_template
from tests.e2e.server.conftest import Served, served, wait
from tests.e2e.server.native import client, job_when, waits
from tests.leftovers import keepers
from tests.stall_watch import WATCHED, require_no_stalls

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(180)]
PATIENCE = 60.0


@pytest.fixture
def server(home: Path) -> Iterator[Served]:
    with served(home / f"serve-{time.monotonic_ns()}") as found:
        yield found


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def desks(server: Served) -> set[str]:
    return set(os.listdir(server.settings.run / "desks"))


def begin_job(api: httpx.Client) -> str:
    """Start a job, and wait until it waits for a person."""
    upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()
    order = {"template": "greeting", "approve": "auto", "files": [{"upload": upload["id"], "name": "names.txt"}]}
    job: str = api.post("/jobs", json=order).raise_for_status().json()["id"]
    waits(api, job, "question")
    return job


@contextmanager
def served_again(server: Served) -> Iterator[str]:
    """Run another server on the same state; yield its address."""
    log = server.log.with_name("again.log")
    with log.open("wb") as written:
        argv = [PROGRAM, "serve", "--port", "0"]
        process = subprocess.Popen(argv, stderr=written, env={**environment(server.settings), **WATCHED})
    try:
        yield wait(process, log)
    finally:
        assert ended(process) == 0
        require_no_stalls(log)


def ended(process: subprocess.Popen[bytes]) -> int:
    """Stop a server; return its exit code."""
    process.terminate()
    return process.wait(PATIENCE)


def test_streams_of_every_kind_are_closed_and_a_job_can_be_resumed(server: Served) -> None:
    job_template.install(server.settings.lib / "templates")
    over: dict[str, object] = {}
    with ExitStack() as stack:
        api = stack.enter_context(client(server))
        job = begin_job(api)
        sandbox = Sandbox.create(**server.e2b)
        handle = sandbox.commands.run("echo on; sleep 300", background=True, timeout=0)
        events = stack.enter_context(api.stream("GET", f"/jobs/{job}/events"))
        desk = api.post("/desks", json={}).raise_for_status().json()["id"]
        address = f"{server.url.replace('http', 'ws')}/api/v1/desks/{desk}/terminal?rows=24&columns=80"
        terminal = stack.enter_context(connect(address, additional_headers={"X-API-Key": server.key}))
        terminal.recv(timeout=PATIENCE)
        followers = [
            threading.Thread(target=follow, args=(over, "events", lambda: all(True for _ in events.iter_lines()))),
            threading.Thread(target=follow, args=(over, "terminal", lambda: all(True for _ in terminal))),
            threading.Thread(target=follow, args=(over, "envd", handle.wait)),
        ]
        for each in followers:
            each.start()
        begun = time.monotonic()
        assert ended(server.process) == 0
        assert time.monotonic() - begun < 45
        for each in followers:
            each.join(PATIENCE)
    assert set(over) == {"events", "terminal", "envd"}
    assert not isinstance(over["terminal"], ConnectionClosed) or over["terminal"].rcvd is not None
    assert desks(server) == set()
    with (
        served_again(server) as url,
        httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": server.key}, timeout=60) as api,
    ):
        question = waits(api, job, "question")
        answer = {"answer": "answer", "words": "Good day", "digest": question["digest"]}
        assert api.post(f"/approvals/{question['id']}", json=answer).status_code == 200
        assert api.post(f"/jobs/{job}/resume", json={}).is_success
        job_when(api, job, "done")


def follow(over: dict[str, object], name: str, work: Callable[[], object]) -> None:
    """Follow a stream to its end; record how it ended."""
    try:
        over[name] = work()
    except Exception as e:  # noqa: BLE001 - told to the test
        over[name] = e


def test_a_second_signal_ends_the_server_at_once_and_its_desks_burn(server: Served) -> None:
    Sandbox.create(**server.e2b)
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) in (0, 128 + signal.SIGTERM)
    until(lambda: desks(server) == set())


def test_desks_of_a_killed_server_burn_and_another_starts_on_its_state(server: Served) -> None:
    sandbox = Sandbox.create(**server.e2b)
    server.process.kill()
    server.process.wait()
    until(lambda: desks(server) == set())
    with served_again(server) as url:
        options = {**server.e2b, "api_url": url, "sandbox_url": url}
        with pytest.raises(NotFoundException):
            Sandbox.connect(sandbox.sandbox_id, **options)
        assert Sandbox.create(**options).commands.run("echo on").stdout == "on\n"


def test_desks_of_a_server_killed_with_its_keepers_are_burnt_by_the_next_one(server: Served) -> None:
    sandbox = Sandbox.create(**server.e2b)
    mine = keepers(server.settings.run.parent)
    server.process.send_signal(signal.SIGSTOP)  # stopped, so that it cannot react
    for pid in mine:
        os.kill(pid, signal.SIGKILL)
    server.process.kill()
    server.process.wait()
    assert sandbox.sandbox_id in desks(server)
    with served_again(server):
        until(lambda: sandbox.sandbox_id not in desks(server))


def test_a_tenant_whose_keeper_is_killed_gets_another_and_the_server_continues(server: Served) -> None:
    sandbox = Sandbox.create(**server.e2b)
    handle = sandbox.commands.run("sleep 300", background=True, timeout=0)
    [keeper] = keepers(server.settings.run.parent)
    os.kill(keeper, signal.SIGKILL)
    with pytest.raises(Exception, match=r"sandbox|connection|peer"):
        handle.wait()
    until(lambda: sandbox.sandbox_id not in desks(server))
    assert Sandbox.create(**server.e2b).commands.run("echo on").stdout == "on\n"
    with pytest.raises(NotFoundException):
        Sandbox.connect(sandbox.sandbox_id, **server.e2b)
    assert httpx.get(f"{server.url}/health").json() == {"status": "ok"}
    assert "Errno" not in server.log.read_text()


def test_a_server_that_cannot_open_desks_does_not_start(home: Path) -> None:
    folder = home / f"closed-{time.monotonic_ns()}"
    (folder / "state").mkdir(parents=True)
    folder.chmod(0o700)
    argv = [PROGRAM, "serve", "--port", "0"]
    env = environment(settings_in(folder / "state"))
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 125
    assert f"other users cannot enter {folder}" in done.stderr
    assert "chmod o+x" in done.stderr
