"""A server and nodes on loopback, in a network namespace of their own: what open tenants and desks cost. Prints JSON.

`bench/cluster.py` runs it. All connections of the namespace are theirs, so the kernel's count of accepted ones is the
number of TLS handshakes; what the measurement itself asks the server is subtracted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.cluster_room import ClusterRoom, ServerProcess
from tests.conftest import settings_in
from tests.upstream import upstream

from hotdesk.api.keys import ApiKeys
from hotdesk.cluster.journal_watch import JournalWatch
from hotdesk.cluster.pull import BATCH, PulledJournal
from hotdesk.cluster.report import NodeReport, parse_report, write_report
from hotdesk.drive.export import as_line
from hotdesk.drive.journal import FILE, Journal, read
from hotdesk.drive.signing import PUBLIC, load_signer
from hotdesk.event import Exchange

_SETTLE_SECONDS = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters of a server and its nodes at one moment."""

    at: float
    server: float
    """CPU seconds of the server and its children."""
    nodes: float
    """CPU seconds of all nodes, with everything that runs there."""
    accepted: int
    """TCP connections accepted in this network namespace."""


def read_accepted() -> int:
    names, values = [line.split()[1:] for line in Path("/proc/net/snmp").read_text().splitlines() if line[:4] == "Tcp:"]
    return int(values[names.index("PassiveOpens")])


def list_tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def read_cpu(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, with those that ended."""
    total = 0
    for each in list_tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


def read_memory(pid: int) -> float:
    """Return the MiB of one process: its share of what it shares, and its own."""
    line = next(line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) / 1024


def take_sample(server: ServerProcess, room: ClusterRoom) -> Sample:
    nodes = sum(read_cpu(each.process.pid) for each in room.nodes.values())
    return Sample(time.monotonic(), read_cpu(server.process.pid), nodes, read_accepted())


def compare(begun: Sample, ended: Sample, what: str) -> dict[str, float]:
    """Return the rates between two samples."""
    seconds = ended.at - begun.at
    return {
        f"{what}: handshakes a second": (ended.accepted - begun.accepted) / seconds,
        f"{what}: CPU s a second of the server": (ended.server - begun.server) / seconds,
        f"{what}: CPU s a second of the nodes": (ended.nodes - begun.nodes) / seconds,
    }


@contextmanager
def open_cluster(
    folder: Path, nodes: int, tenants: int = 0, config: str = "", node_config: str = ""
) -> Iterator[tuple[ClusterRoom, ServerProcess, list[str]]]:
    """Yield a server with nodes, and a key of each additional tenant; none of these is open yet."""
    room = ClusterRoom(folder)
    keys = ApiKeys(settings_in(folder / "home").lib / "serve")
    api_keys = [keys.make("bench", f"t{number}") for number in range(tenants)]
    for number in range(nodes):
        (folder / f"n{number}/etc").mkdir(parents=True)
        (folder / f"n{number}/etc/config.toml").write_text(node_config)
    try:
        addresses = [room.start_node(f"n{number}").address for number in range(nodes)]
        with room.serve(*addresses, config=config, variables={}) as server:
            server.wait_for_nodes(nodes)
            yield room, server, api_keys
    finally:
        room.close()


def call(server: ServerProcess, method: str, path: str, value: object = None, key: str = "") -> Any:
    """Make one request of the native API; return its body."""
    headers = {"Authorization": f"Bearer {key or server.key}"}
    done = httpx.request(method, f"{server.url}/api/v1{path}", json=value, headers=headers, timeout=120)
    done.raise_for_status()
    return done.json() if done.content else None


def open_desks(server: ServerProcess, count: int, **fields: object) -> list[str]:
    return [str(call(server, "POST", "/desks", {"memory": "256M", **fields})["id"]) for _ in range(count)]


def run(server: ServerProcess, desk: str, *argv: str) -> Any:
    return call(server, "POST", f"/desks/{desk}/run", {"argv": list(argv)})


def measure_idle(folder: Path, nodes: int, tenants: int, seconds: float, rounds: int) -> dict[str, float]:
    """Measure what open tenants without desks cost while nothing happens."""
    with open_cluster(folder, nodes, tenants) as (room, server, keys):
        empty, few = read_memory(server.process.pid), len(list_tree(server.process.pid))
        for key in keys:
            call(server, "GET", "/desks", key=key)
        time.sleep(_SETTLE_SECONDS)
        begun = take_sample(server, room)
        time.sleep(seconds * rounds)
        ended = take_sample(server, room)
        children = [each for each in list_tree(server.process.pid) if each != server.process.pid]
        return {
            **compare(begun, ended, f"{tenants} idle tenants, {nodes} nodes"),
            "MiB of the server without tenants": empty,
            "MiB of the server per tenant": (read_memory(server.process.pid) - empty) / tenants,
            "MiB of keys and other processes per tenant": sum(map(read_memory, children)) / tenants,
            "processes per tenant": (len(children) + 1 - few) / tenants,
        }


def measure_desks(folder: Path, nodes: int, desks: int, seconds: float, rounds: int) -> dict[str, float]:
    """Measure what desks cost at the server: opened, idle, used."""
    with open_cluster(folder, nodes) as (room, server, _):
        open_desks(server, nodes)
        time.sleep(_SETTLE_SECONDS)
        empty, sockets = read_memory(server.process.pid), count_established()
        begun = take_sample(server, room)
        opened = open_desks(server, desks)
        ended = take_sample(server, room)
        time.sleep(_SETTLE_SECONDS)
        rest = take_sample(server, room)
        time.sleep(seconds * rounds)
        rested = take_sample(server, room)
        here = (read_memory(server.process.pid) - empty) / desks
        connections = (count_established() - sockets) / desks
        before = take_sample(server, room)
        for desk in opened:
            run(server, desk, "true")
        after = take_sample(server, room)
        for desk in opened:
            call(server, "DELETE", f"/desks/{desk}")
        return {
            "MiB of the server per open desk": here,
            "TCP connections per open desk": connections,
            "server: CPU s to open a desk": (ended.server - begun.server) / desks,
            "nodes: CPU s to open a desk": (ended.nodes - begun.nodes) / desks,
            "handshakes to open a desk": (ended.accepted - begun.accepted) / desks - 1,
            "server: CPU s of a command": (after.server - before.server) / desks,
            "nodes: CPU s of a command": (after.nodes - before.nodes) / desks,
            **compare(rest, rested, f"{desks + nodes} idle desks, {nodes} nodes"),
        }


def count_established() -> float:
    """Return the number of TCP connections of this network namespace."""
    return sum(line.split()[3] == "01" for line in Path("/proc/net/tcp").read_text().splitlines()[1:]) / 2


def count_events(folder: Path, desk: str, name: str) -> int:
    return sum(row.name == name for row in read(settings_in(folder / "home").lib / "keys" / FILE, desk))


def measure_events(folder: Path, nodes: int, count: int, _seconds: float, _rounds: int) -> dict[str, float]:
    """Measure the way of a door's events to the server's journal: refused requests, which are recorded all the same."""
    with open_cluster(folder, nodes) as (room, server, _):
        [desk] = open_desks(server, 1, allow=["GET https://a.test/**"])
        time.sleep(_SETTLE_SECONDS)
        tested, begun = count_events(folder, desk, "Exchange"), take_sample(server, room)
        run(server, desk, "sh", "-c", f"curl -s http://b.test/[1-{count}] > /dev/null")
        done = time.monotonic()
        while count_events(folder, desk, "Exchange") < tested + count:
            time.sleep(0.05)
        ended = take_sample(server, room)
        call(server, "DELETE", f"/desks/{desk}")
        return {
            "events per second of one desk": count / (done - begun.at),
            "seconds until the last event is at the server": ended.at - done,
            "server: CPU s per 1,000 events": 1000 * (ended.server - begun.server) / count,
            "nodes: CPU s per 1,000 events, with their requests": 1000 * (ended.nodes - begun.nodes) / count,
        }


def measure_sync(folder: Path, nodes: int, count: int, _seconds: float, _rounds: int) -> dict[str, float]:
    """Measure what `sync` adds to a request: one after the other, and 16 at once."""
    found: dict[str, float] = {}
    folder.mkdir(exist_ok=True)
    with upstream(folder, "api.erp.test") as outside:
        for sync in ("false", "true"):
            config = f'sync = {sync}\n[door.names]\n"api.erp.test" = "{outside.address}"'
            (place := folder / sync).mkdir(mode=0o755)
            with open_cluster(place, nodes, config=config, node_config=f'[door]\nca = "{outside.ca}"\n') as opened:
                _, server, _ = opened
                [desk] = open_desks(server, 1, allow=["GET https://api.erp.test/**"])
                for name, options in (("one by one", ""), ("16 at once", "-Z --parallel-max 16 ")):
                    script = f"curl -sf {options}'https://api.erp.test/[1-{count}]' > /dev/null"
                    run(server, desk, "sh", "-c", script)
                    begun = time.monotonic()
                    assert run(server, desk, "sh", "-c", script)["exit_code"] == 0
                    found[f"ms per request, {name}, sync = {sync}"] = 1000 * (time.monotonic() - begun) / count
                call(server, "DELETE", f"/desks/{desk}")
    return found


def measure_parts(folder: Path, _nodes: int, count: int, _seconds: float, _rounds: int) -> dict[str, float]:
    """Measure parts in this process: reports, the look at journals' files, the check of fetched events."""
    folder.mkdir(exist_ok=True)
    images = tuple(f"image-{number}" for number in range(10))
    line = write_report(NodeReport("n1", "1" * 32, 16, 1 << 36, 500, ("container", "gvisor"), images, journals=()))
    (keys := folder / "keys").mkdir(mode=0o700)
    journal = Journal(keys / FILE, load_signer(keys))
    exchange = Exchange("i1", "", "deny", "default deny", "GET", "http", "a.test", 80, "/", 403, 0, 300, 1)
    begun = time.process_time()
    for _ in range(count):
        journal.add("i1", "door", exchange)
        journal.commit()
    found = {"node: CPU s for 1,000 commits of one event": _rate(begun, count)}
    journal.close()
    lines = [as_line(row) for row in read(keys / FILE)]
    pulled, key = PulledJournal(folder / "n1"), (keys / PUBLIC).read_text()
    begun = time.process_time()
    for place in range(0, count, BATCH):
        pulled.take({"key": key, "events": lines[place : place + BATCH]})
    found["server: CPU s to check and store 1,000 events"] = _rate(begun, count)
    begun = time.process_time()
    for _ in range(count):
        parse_report(line)
    found |= {"bytes of a report": len(line), "server: CPU s for 1,000 reports": _rate(begun, count)}
    watch, folders = JournalWatch(), {f"t{number}": keys for number in range(count)}
    begun = time.process_time()
    watch.list_moved(folders)
    return found | {"node: CPU s to look at 1,000 journals": _rate(begun, count)}


def _rate(begun: float, count: int) -> float:
    return 1000 * (time.process_time() - begun) / count


MEASURES = {
    "parts": measure_parts,
    "idle": measure_idle,
    "desks": measure_desks,
    "events": measure_events,
    "sync": measure_sync,
}


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    folder, what, *numbers = sys.argv[1:]
    nodes, count, seconds, rounds = map(int, numbers)
    print(json.dumps({**MEASURES[what](Path(folder), nodes, count, seconds, rounds), "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
