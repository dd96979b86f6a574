"""A desk has no network card: what it dials, binds and listens to ends in its own loopback."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hotdesk.config import Config
from hotdesk.desk.seam import Desk, Process

Attack = Callable[..., Awaitable[Any]]
Launch = Callable[..., Awaitable[tuple[Process, Any]]]
Init = Callable[[Config, Desk], int]

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

MIB = 1 << 20
LOOK = """
with open("/proc/net/route") as file:
    routes = file.read().splitlines()[1:]
with open("/proc/net/ipv6_route") as file:
    six = {line.split()[-1] for line in file}
with open("/proc/net/dev") as file:
    cards = [line.split(":")[0].strip() for line in file.read().splitlines()[2:]]
with open("/etc/resolv.conf") as file:
    resolver = file.read()
tell({"names": [name for _, name in socket.if_nameindex()], "routes": routes, "six": sorted(six), "cards": cards,
      "resolver": resolver})
"""
DIAL = """
def dial(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(2)
        return attempt(s.connect, address) if kind == socket.SOCK_STREAM else attempt(s.sendto, b"x", address)

told = {}
for host in given["four"]:
    for port in (53, 80, 443):
        told["tcp %s %d" % (host, port)] = dial(socket.AF_INET, socket.SOCK_STREAM, (host, port))
        told["udp %s %d" % (host, port)] = dial(socket.AF_INET, socket.SOCK_DGRAM, (host, port))
for host in given["six"]:
    told["tcp " + host] = dial(socket.AF_INET6, socket.SOCK_STREAM, (host, 80))
    told["udp " + host] = dial(socket.AF_INET6, socket.SOCK_DGRAM, (host, 53))
try:
    told["name"] = socket.getaddrinfo("example.com", 80) and "resolved"
except socket.gaierror:
    told["name"] = "ENETUNREACH"
tell(told)
"""
NETLINK = """
def ask(kind, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.bind((0, 0))
    s.send(struct.pack("IHHII", 16 + len(body), kind, 0x405, 1, 0) + body)
    answer = s.recv(4096)
    return name(-struct.unpack_from("i", answer, 16)[0])

link = struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH6sxx", 10, 3, b"evil0\\0")
down = struct.pack("BxHiII", 0, 0, 1, 0, 1)
route = struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + struct.pack("HHI", 8, 4, 1)
with socket.socket() as s:
    flags = attempt(fcntl.ioctl, s, 0x8914, struct.pack("16sH22x", b"lo", 0))
tell({"new card": ask(16, link), "loopback down": ask(16, down), "route": ask(24, route), "ioctl": flags})
"""
GATE = """
def bind(address):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        return attempt(lambda: (s.bind(address), s.listen()) and None)

with socket.socket() as s:
    s.settimeout(2)
    reached = attempt(s.connect, ("127.0.0.1", 3128))
tell({"dial": reached, "take": bind(("127.0.0.1", 3128)), "take all": bind(("0.0.0.0", 3128))})
"""
CALL = """
def call_to(address):
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as s:
        s.settimeout(2)
        return attempt(s.connect, address if isinstance(address, str) else tuple(address))

tell([call_to(each) for each in given["addresses"]])
"""
LISTEN = """
tcp = socket.create_server(("127.0.0.1", 0))
unix = socket.socket(socket.AF_UNIX)
unix.bind(given["name"])
unix.listen()
tell(tcp.getsockname()[1])
time.sleep(60)
"""
TCP_FLOOD = """
server = socket.create_server(("127.0.0.1", 0), backlog=512)
kept, queued = [server], 0
for _ in range(given["pairs"]):
    try:
        client = socket.create_connection(server.getsockname(), timeout=2)
        kept += [client, server.accept()[0]]
        client.setblocking(False)
        while True:
            queued += client.send(bytes(1 << 16))
    except OSError:
        continue
tell(queued)
"""
UDP_FLOOD = """
kept, queued = [], 0
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(given["pairs"]):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    server.bind(("127.0.0.1", 0))
    kept.append(server)
    for _ in range(20):
        attempt(client.sendto, bytes(60000), server.getsockname())
for server in kept:
    server.setblocking(False)
    try:
        while True:
            queued += len(server.recv(65536))
    except OSError:
        pass
tell(queued)
"""


def listening(port: int) -> list[str]:
    """Give the lines of this machine's own TCP listeners at a port."""
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [line for line in lines if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"]


async def test_a_desk_has_loopback_and_nothing_else(
    desk: Desk, neighbour: Desk, attack: Attack, settings: Config, init: Init
) -> None:
    told = await attack(desk, LOOK)
    assert told == {"names": ["lo"], "routes": [], "six": ["lo"], "cards": ["lo"], "resolver": ""}
    spaces = {os.stat(f"/proc/{pid}/ns/net").st_ino for pid in (init(settings, desk), init(settings, neighbour))}
    assert len(spaces | {os.stat("/proc/self/ns/net").st_ino}) == 3


async def test_no_address_beyond_it_can_be_reached(desk: Desk, attack: Attack) -> None:
    four = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "10.0.0.1", "192.168.0.1", "172.17.0.1", "1.1.1.1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            four.append(probe.getsockname()[0])
        except OSError:
            pass  # this machine has no route either
    told = await attack(desk, DIAL, four=four, six=["fd00:ec2::254", "2606:4700::1111", "fe80::1"])
    refused = {what: answer for what, answer in told.items() if answer not in ("ENETUNREACH", "EINVAL")}
    assert len(told) > 40
    assert refused == {}


async def test_a_desk_cannot_change_its_network(desk: Desk, attack: Attack) -> None:
    told = await attack(desk, NETLINK)
    assert told == dict.fromkeys(("new card", "loopback down", "route", "ioctl"), "EPERM")


async def test_the_gate_listens_inside_the_desk_only_and_cannot_be_taken(desk: Desk, attack: Attack) -> None:
    assert listening(3128) == []
    told = await attack(desk, GATE)
    assert told == {"dial": "done", "take": "EADDRINUSE", "take all": "EADDRINUSE"}
    assert listening(3128) == []


async def test_loopback_and_abstract_sockets_of_the_host_and_other_desks_are_out_of_reach(
    desk: Desk, neighbour: Desk, attack: Attack, launch: Launch
) -> None:
    name = f"\0hotdesk-{secrets.token_hex(8)}"
    theirs = f"\0hotdesk-{secrets.token_hex(8)}"
    process, port = await launch(neighbour, LISTEN, name=theirs)
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(name)
        unix.listen()
        addresses = [name, ["127.0.0.1", tcp.getsockname()[1]], theirs, ["127.0.0.1", port]]
        assert await attack(desk, CALL, addresses=addresses) == ["ECONNREFUSED"] * 4
        mine = await attack(neighbour, CALL, addresses=addresses)
    assert mine == ["ECONNREFUSED", "ECONNREFUSED", "done", "done"]
    await process.kill()


@pytest.mark.parametrize("flood", [TCP_FLOOD, UDP_FLOOD], ids=["tcp", "udp"])
async def test_unread_socket_buffers_stay_within_a_limit(desk: Desk, attack: Attack, flood: str) -> None:
    """The kernel lets a socket overshoot a little; without a limit these floods queue hundreds of MiB."""
    queued = await attack(desk, flood, pairs=300)
    assert MIB < queued < 96 * MIB
