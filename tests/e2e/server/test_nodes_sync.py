"""Tests of `[serve] sync`: a door on a node sends a request only after the server has its record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hotdesk.drive.chain import Row
from hotdesk.drive.journal import FILE, read
from tests.cluster_room import ClusterRoom, NodeProcess, ServerProcess
from tests.conftest import settings_in, state_directory
from tests.upstream import Seen, Upstream, upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(240), pytest.mark.long]
ALLOW = ["write https://api.erp.test/**"]
FETCH = ["curl", "-sS", "-m", "30", "-w", " %{http_code}"]


class Killer(list[Seen]):
    """The requests of an upstream. A request to `/deadly` kills a node before it is answered."""

    node: NodeProcess | None = None

    def append(self, seen: Seen) -> None:
        super().append(seen)
        if seen.path == "/deadly" and self.node is not None:
            self.node.kill()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Upstream]:
    with upstream(tmp_path, "api.erp.test") as found:
        found.seen = Killer()
        yield found


@pytest.fixture
def room(outside: Upstream) -> Iterator[ClusterRoom]:
    with state_directory() as folder:
        found = ClusterRoom(folder)
        (folder / "n1/etc").mkdir(parents=True)
        (folder / "n1/etc/config.toml").write_text(f'[door]\nca = "{outside.ca}"\n')
        try:
            found.start_node("n1")
            yield found
        finally:
            found.close()


@pytest.fixture
def server(room: ClusterRoom, outside: Upstream) -> Iterator[ServerProcess]:
    config = f'sync = true\n[door.names]\n"api.erp.test" = "{outside.address}"'
    with room.serve(room.nodes["n1"].address, config=config) as found:
        yield found


def open_desk(server: ServerProcess) -> str:
    response = call(server, "POST", "/desks", {"image": "base", "allow": ALLOW})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def call(server: ServerProcess, method: str, path: str, value: object = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.key}"}
    return httpx.request(method, f"{server.url}/api/v1{path}", json=value, headers=headers, timeout=90)


def list_events(room: ClusterRoom, desk: str, name: str) -> list[Row]:
    """Return a desk's events of a kind in the server's journal."""
    return [row for row in read(settings_in(room.folder / "home").lib / "keys" / FILE, desk) if row.name == name]


def test_the_server_has_the_record_of_a_request_whose_node_is_killed_right_after(
    room: ClusterRoom, server: ServerProcess, outside: Upstream
) -> None:
    desk = open_desk(server)
    assert list_events(room, desk, "Opened"), "the server has it before the desk is handed over"
    assert isinstance(outside.seen, Killer)
    outside.seen.node = room.nodes["n1"]
    call(server, "POST", f"/desks/{desk}/run", {"argv": [*FETCH, "-d", "x", "https://api.erp.test/deadly"]})
    assert [each.path for each in outside.seen] == ["/deadly"]
    [row] = list_events(room, desk, "RequestAdmitted")
    assert '"path":"/deadly"' in row.data
    assert '"method":"POST"' in row.data
    assert not any("/deadly" in each.data for each in list_events(room, desk, "Exchange")), "it is what was lost"


def test_requests_take_little_longer(room: ClusterRoom, server: ServerProcess, outside: Upstream) -> None:
    desk = open_desk(server)
    begun = time.monotonic()
    urls = [f"https://api.erp.test/{number}" for number in range(10)]
    done = call(server, "POST", f"/desks/{desk}/run", {"argv": [*FETCH, *urls]})
    assert done.json()["exit_code"] == 0, done.text
    assert time.monotonic() - begun < 10, "not a second and more for each"
    assert len(outside.seen) == 10
    assert len(list_events(room, desk, "RequestAdmitted")) == 10
    call(server, "DELETE", f"/desks/{desk}")


def test_requests_are_refused_while_the_server_is_gone(
    room: ClusterRoom, server: ServerProcess, outside: Upstream
) -> None:
    desk = open_desk(server)
    script = "sleep 3; for n in 1 2; do curl -sS -m 60 -w '%{http_code}' https://api.erp.test/late; done > answers"
    call(server, "POST", f"/desks/{desk}/run", {"argv": ["sh", "-c", f"({script}) >/dev/null 2>&1 &"]})
    server.process.kill()
    server.process.wait()
    [answers] = wait_for_answers(room, desk)
    assert answers.count("503") == 2
    assert "has not confirmed within 10 s that it has the record of it; try again" in answers
    assert outside.seen == []


def wait_for_answers(room: ClusterRoom, desk: str) -> list[str]:
    """Return the file `answers` of a desk on n1 once both requests were answered; its server is gone."""
    end = time.monotonic() + 60
    while True:
        found = [each.read_text() for each in find_files(room, desk)]
        if found and found[0].count("503") + found[0].count("200") >= 2:
            return found
        assert time.monotonic() < end, found
        time.sleep(0.2)


def find_files(room: ClusterRoom, desk: str) -> list[Path]:
    """Find the file in the desk's root, through one of the desk's processes."""
    for cgroup in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if desk in cgroup.read_text() and (path := cgroup.parent / "root/home/user/answers").exists():
                return [path]
        except OSError:
            continue
    return []
