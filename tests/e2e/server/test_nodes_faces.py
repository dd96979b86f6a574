"""Tests of a server's other interfaces with desks on nodes: MCP sessions, the native API, deliverables, journal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from e2b import Sandbox, SandboxException, Secret
from websockets.sync.client import connect

from hotdesk.cluster.names import compute_node_code, get_node_code
from hotdesk.drive.journal import FILE, read
from tests.cluster_room import ClusterRoom, ServerProcess
from tests.conftest import settings_in, state_directory
from tests.mcp_served import connected, text_of
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(240), pytest.mark.long]


VALUE = "a-value-that-nobody-reads-back"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with upstream(tmp_path_factory.mktemp("upstream"), "api.erp.test") as found:
        yield found


@pytest.fixture(scope="module")
def room(outside: Upstream) -> Iterator[ClusterRoom]:
    with state_directory() as folder:
        found = ClusterRoom(folder)
        try:
            for name in ("n1", "n2"):
                (folder / name / "etc").mkdir(parents=True)
                (folder / name / "etc/config.toml").write_text(f'[door]\nca = "{outside.ca}"\n')
                found.start_node(name)
            yield found
        finally:
            found.close()


@pytest.fixture(scope="module")
def server(room: ClusterRoom, outside: Upstream) -> Iterator[ServerProcess]:
    door = f'ceiling = ["GET https://api.erp.test/**"]\n[door.names]\n"api.erp.test" = "{outside.address}"'
    config = f'mcp_image = "base"\n[door]\n{door}'
    with room.serve(*(each.address for each in room.nodes.values()), config=config) as found:
        yield found


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Iterator[httpx.Client]:
    """Yield a client of the native API."""
    headers = {"Authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=headers, timeout=60) as made:
        yield made


def read_journal(room: ClusterRoom) -> list[str]:
    """Return the names of the events in the server's journal."""
    return [row.name for row in read(settings_in(room.folder / "home").lib / "keys" / FILE)]


def test_a_desk_of_the_native_api_is_on_a_node_and_listed(api: httpx.Client) -> None:
    made = api.post("/desks", json={"image": "base", "memory": "512M"})
    assert made.status_code == 201, made.text
    desk = made.json()["id"]
    assert get_node_code(desk) in {compute_node_code(name) for name in ("n1", "n2")}
    assert (made.json()["wall"], made.json()["state"]) == ("container", "open")
    done = api.post(f"/desks/{desk}/run", json={"argv": ["sh", "-c", "echo $((6 * 7)); exit 3"]}).json()
    assert (done["stdout"], done["exit_code"]) == ("42\n", 3)
    assert [each["id"] for each in api.get("/desks").json()["items"]] == [desk]
    assert api.get("/fleet").json()["desks"] == 1
    snapshot = api.post(f"/desks/{desk}/snapshots").json()["snapshot"]
    api.post(f"/desks/{desk}/run", json={"argv": ["touch", "later"]})
    assert api.post(f"/desks/{desk}/rollback", json={"snapshot": snapshot}).status_code == 204
    assert api.post(f"/desks/{desk}/run", json={"argv": ["ls", "later"]}).json()["exit_code"] == 2
    [fork] = api.post(f"/desks/{desk}/fork", json={"count": 1}).json()["items"]
    assert api.post(f"/desks/{desk}/pause").status_code == 204
    assert {each["id"]: each["state"] for each in api.get("/desks").json()["items"]} == {
        desk: "paused",
        fork["id"]: "open",
    }
    for each in (desk, fork["id"]):
        assert api.delete(f"/desks/{each}").status_code == 204
    assert api.get("/desks").json()["items"] == []


def test_a_terminal_and_a_stream_reach_a_desk_on_a_node(api: httpx.Client, server: ServerProcess) -> None:
    desk = api.post("/desks", json={"image": "base", "memory": "512M"}).json()["id"]
    place, headers = server.url.replace("http", "ws"), {"Authorization": f"Bearer {server.key}"}
    with connect(f"{place}/api/v1/desks/{desk}/terminal", additional_headers=headers) as socket:
        socket.send(b"echo $((6 * 7)) done; exit\n")
        heard = b""
        while b"42 done" not in heard:
            piece = socket.recv(30)
            heard += piece if isinstance(piece, bytes) else b""
    command = "python3 -m http.server -b 127.0.0.1 8000 >/dev/null 2>&1 & sleep 1"
    api.post(f"/desks/{desk}/run", json={"argv": ["sh", "-c", command]})
    with connect(f"{place}/api/v1/desks/{desk}/stream?to=8000", additional_headers=headers) as socket:
        assert socket.recv(30) == "open"
        socket.send(b"GET / HTTP/1.0\r\n\r\n")
        reply = socket.recv(30)
        assert isinstance(reply, bytes)
        assert reply.startswith(b"HTTP/1.0 200")
    api.delete(f"/desks/{desk}")


@pytest.mark.anyio
async def test_an_mcp_client_has_a_desk_on_a_node_and_delivers(server: ServerProcess, room: ClusterRoom) -> None:
    async with connected(server.url, server.key) as client:
        listed = {each.name for each in (await client.list_tools()).tools}
        assert {"shell", "file_create", "deliver"} <= listed
        seen = await client.call_tool("shell", {"command": "echo $((6 * 7)) > answer.json; cat answer.json; id -un"})
        assert "42" in text_of(seen)
        delivered = text_of(await client.call_tool("deliver", {"path": "answer.json"}))
        assert "Stored as" in delivered, delivered
    names = read_journal(room)
    assert {"Used", "DriveChanged", "WallProven"} <= set(names)


def test_changes_of_keys_are_in_the_servers_journal(api: httpx.Client, room: ClusterRoom) -> None:
    made = api.post("/keys", json={"name": "another", "powers": ["desks"]})
    assert made.status_code == 201, made.text
    assert "KeyChanged" in read_journal(room)


def test_desks_of_a_process_that_is_gone_are_burnt(room: ClusterRoom, api: httpx.Client) -> None:
    desk = api.post("/desks", json={"image": "base", "memory": "512M"}).json()["id"]
    with room.serve(*(each.address for each in room.nodes.values()), name="home2") as second:
        headers = {"Authorization": f"Bearer {second.key}"}
        other = httpx.post(f"{second.url}/api/v1/desks", headers=headers, json={"image": "base"}, timeout=60)
        assert other.status_code == 201, other.text
        second.process.kill()
    with room.serve(*(each.address for each in room.nodes.values()), name="home2") as third:
        end = time.monotonic() + 30
        headers = {"Authorization": f"Bearer {third.key}"}
        while httpx.get(f"{third.url}/api/v1/desks", headers=headers, timeout=60).json()["items"]:
            assert time.monotonic() < end
            time.sleep(0.2)
    assert [each["id"] for each in api.get("/desks").json()["items"]] == [desk], json.dumps(api.get("/desks").json())
    api.delete(f"/desks/{desk}")


def rules(value: str, host: str = "api.erp.test") -> Any:
    transform = {"transform": {"headers": {"Authorization": value}}}
    return {"allow_out": [host], "deny_out": ["0.0.0.0/0"], "rules": {host: [transform]}}


def test_a_secret_of_the_vault_is_attached_by_a_nodes_door_and_stored_nowhere_on_the_node(
    server: ServerProcess, outside: Upstream, room: ClusterRoom
) -> None:
    Secret.create("erp", VALUE, **server.e2b)
    sandbox = Sandbox.create(network=rules(f"Bearer {Secret.fill('erp')}"), timeout=120, **server.e2b)
    heard = sandbox.commands.run("curl -s https://api.erp.test/; env; cat /proc/*/environ 2>/dev/null || true")
    assert outside.seen[-1].header("authorization") == f"Bearer {VALUE}"
    assert VALUE not in heard.stdout
    sandbox.update_network(rules("plain-and-long-enough"))
    sandbox.commands.run("curl -s https://api.erp.test/")
    assert outside.seen[-1].header("authorization") == "plain-and-long-enough"
    sandbox.kill()
    Secret.destroy("erp", **server.e2b)
    for path in room.folder.rglob("*"):
        if path.is_file() and not path.is_relative_to(room.folder / "images") and path.stat().st_size < 1 << 24:
            assert VALUE.encode() not in path.read_bytes(), path


def test_hosts_that_the_servers_operator_forbids_are_unreachable_from_nodes(server: ServerProcess) -> None:
    with pytest.raises(SandboxException, match="ceiling"):
        Sandbox.create(network={"allow_out": ["example.org"], "deny_out": ["0.0.0.0/0"]}, **server.e2b)
