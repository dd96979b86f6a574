"""Attacks by a desk on the network: it has no network card, and can dial, bind and listen only on its loopback."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from pathlib import Path

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.linux import uids
from tests.security.conftest import KNOCK, Attack, Init, Launch, Owning, Rows
from tests.security.guards import ALL_CAPABILITIES, ROUTED_TO_LOOPBACK, WALLS_UNPROVEN, Removal, falls_without

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
FAR: Rows = {
    "TCP to the cloud's metadata": ("dial('169.254.169.254', 80)", "ENETUNREACH"),
    "UDP to the cloud's metadata": ("send('169.254.169.254', 80)", "ENETUNREACH"),
    "TCP to the cloud's metadata on IPv6": ("dial('fd00:ec2::254', 80)", "ENETUNREACH"),
    "UDP to the cloud's metadata on IPv6": ("send('fd00:ec2::254', 80)", "ENETUNREACH"),
    "TCP to a container's credentials": ("dial('169.254.170.2', 80)", "ENETUNREACH"),
    "TCP to another cloud's metadata": ("dial('100.100.100.200', 80)", "ENETUNREACH"),
    "TCP to 10.0.0.1": ("dial('10.0.0.1', 443)", "ENETUNREACH"),
    "TCP to 192.168.0.1": ("dial('192.168.0.1', 80)", "ENETUNREACH"),
    "TCP to docker's bridge": ("dial('172.17.0.1', 2375)", "ENETUNREACH"),
    "TCP to the internet": ("dial('1.1.1.1', 443)", "ENETUNREACH"),
    "TCP to the internet on IPv6": ("dial('2606:4700::1111', 443)", "ENETUNREACH"),
    "TCP to the internet as a mapped address": ("dial('::ffff:1.1.1.1', 443)", "ENETUNREACH"),
    "TCP with data in its first packet": ("fast('1.1.1.1', 443)", "ENETUNREACH"),
    "UDP to the internet": ("send('1.1.1.1', 443)", "ENETUNREACH"),
    "UDP to the internet on IPv6": ("send('2606:4700::1111', 443)", "ENETUNREACH"),
    "a name by UDP 53": ("send('1.1.1.1', 53)", "ENETUNREACH"),
    "a name by UDP 53 on IPv6": ("send('2606:4700::1111', 53)", "ENETUNREACH"),
    "a name by TCP 53": ("dial('1.1.1.1', 53)", "ENETUNREACH"),
    "multicast": ("send('224.0.0.251', 5353)", "ENETUNREACH"),
    "broadcast": ("send('255.255.255.255', 67)", "ENETUNREACH"),
    "an address of somebody else as one's own": ("attempt(socket.create_server, ('10.1.2.3', 0))", "EADDRNOTAVAIL"),
}
CHANGES: Rows = {
    "a new card": ("ask(16, LINK)", "EPERM"),
    "loopback down by netlink": ("ask(16, struct.pack('BxHiII', 0, 0, 1, 0, 1))", "EPERM"),
    "a route": ("ask(24, ROUTE)", "EPERM"),
    "an address": ("ask(20, struct.pack('BBBBI', 2, 24, 0, 0, 1) + struct.pack('HHI', 8, 2, 0x0100007f))", "EPERM"),
    "loopback down by ioctl": (
        "attempt(fcntl.ioctl, socket.socket(), 0x8914, struct.pack('16sH22x', b'lo', 0))",
        "EPERM",
    ),
    "a packet filter": ("attempt(socket.socket().setsockopt, 0, 64, bytes(4))", "EPERM"),
    "a packet filter on IPv6": ("attempt(socket.socket(socket.AF_INET6).setsockopt, 41, 64, bytes(4))", "EPERM"),
    "a transparent proxy": ("attempt(socket.socket().setsockopt, 0, 19, 1)", "EPERM"),
    "a mark on packets": ("attempt(socket.socket().setsockopt, 1, 36, 7)", "EPERM"),
}
ROWS: Rows = FAR | CHANGES
TOOLS = """
def family(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET

def dial(host, port):
    with socket.socket(family(host)) as s:
        s.settimeout(3)
        return attempt(s.connect, (host, port))

def send(host, port):
    with socket.socket(family(host), socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        return attempt(s.sendto, b"x", (host, port))

def fast(host, port):
    with socket.socket(family(host)) as s:
        s.settimeout(3)
        return attempt(s.sendto, b"x", socket.MSG_FASTOPEN, (host, port))

def ask(kind, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.bind((0, 0))
    s.send(struct.pack("IHHII", 16 + len(body), kind, 0x405, 1, 0) + body)
    answer = s.recv(4096)
    return name(-struct.unpack_from("i", answer, 16)[0])

LINK = struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH6sxx", 10, 3, b"evil0\\0")
ROUTE = struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + struct.pack("HHI", 8, 4, 1)
"""
NAMES = """
def find(host):
    try:
        return [found[4][0] for found in socket.getaddrinfo(host, 80)]
    except socket.gaierror:
        return "unknown"

tell({host: find(host) for host in given["names"]})
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
KINDS = """
def made(kind):
    family = socket.AF_UNIX if "abstract" in kind else socket.AF_INET6 if "IPv6" in kind else socket.AF_INET
    return socket.socket(family, socket.SOCK_DGRAM if kind in ("UDP", "abstract datagram") else socket.SOCK_STREAM)

"""
CALL = (
    KINDS
    + """
address = given["address"] if isinstance(given["address"], str) else tuple(given["address"])
with made(given["kind"]) as s:
    s.settimeout(2)
    told = attempt(s.connect, address)
    if told == "done" and s.type == socket.SOCK_DGRAM:
        attempt(s.send, b"x")
        time.sleep(0.05)
        told = attempt(s.send, b"x")  # nobody's port answers the first one with this error
    tell("done" if told == 1 else told)
"""
)
LISTEN = (
    KINDS
    + """
s = made(given["kind"])
s.bind(given["name"] if "abstract" in given["kind"] else ("::1" if "IPv6" in given["kind"] else "127.0.0.1", 0))
if s.type == socket.SOCK_STREAM:
    s.listen()
tell(given["name"] if "abstract" in given["kind"] else s.getsockname())
time.sleep(60)
"""
)
MANY_CALLS = """
kept = []
for _ in range(400):
    s = socket.socket()
    s.settimeout(1)
    if attempt(s.connect, ("127.0.0.1", 3128)) == "done":
        kept.append(s)
        attempt(s.send, b"x")
tell(len(kept))
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
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [line for line in lines if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"]


@falls_without(
    "a network of its own",
    WALLS_UNPROVEN,
    Removal("container/bundle.py", '                {"type": "network", "path": room.netns},\n', ""),
)
@falls_without(
    "a network each",
    Removal(
        "room/room.py",
        "            self.netns, self.gate = syscalls.run_in_new_netns(open_gate)\n",
        "            global kept\n"
        '            if "kept" not in globals():\n'
        "                kept = syscalls.run_in_new_netns(open_gate)\n"
        "            self.netns, self.gate = os.dup(kept[0]), kept[1].dup()\n",
    ),
)
@falls_without(
    "no resolver",
    Removal("room/identity.py", '"etc/resolv.conf": b"",', '"etc/resolv.conf": b"nameserver 192.0.2.53\\n",'),
)
async def test_a_desk_has_loopback_and_nothing_else(
    desk: Desk, neighbour: Desk, attack: Attack, settings: Config, init: Init
) -> None:
    told = await attack(desk, LOOK)
    assert told == {"names": ["lo"], "routes": [], "six": ["lo"], "cards": ["lo"], "resolver": ""}
    spaces = {os.stat(f"/proc/{pid}/ns/net").st_ino for pid in (init(settings, desk), init(settings, neighbour))}
    assert len(spaces | {os.stat("/proc/self/ns/net").st_ino}) == 3


@falls_without("no route", ROUTED_TO_LOOPBACK)
@pytest.mark.parametrize("what", FAR)
async def test_no_address_beyond_loopback_can_be_reached(answers: dict[str, object], what: str) -> None:
    assert answers[what] == FAR[what][1]


@falls_without("a network of its own")
async def test_the_hosts_own_address_cannot_be_reached(desk: Desk, attack: Attack) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            address = probe.getsockname()[0]
        except OSError:
            address = "127.0.0.1"  # this machine has no route either
        code = TOOLS + "tell([dial(given['host'], given['port']), send(given['host'], given['port'])])"
        told = await attack(desk, code, host=address, port=listener.getsockname()[1])
    assert set(told) <= ({"ENETUNREACH", "EHOSTUNREACH"} if address != "127.0.0.1" else {"ECONNREFUSED", 1})


@falls_without(
    "no names",
    Removal(
        "room/identity.py",
        '"etc/hosts": f"127.0.0.1 localhost {name}\\n::1 localhost\\n".encode(),',
        '"etc/hosts": f"127.0.0.1 localhost {os.uname().nodename}\\n".encode(),',
    ),
)
async def test_no_name_but_its_own_resolves(desk: Desk, attack: Attack) -> None:
    names = [os.uname().nodename, "example.com", "metadata.google.internal", "host.docker.internal", "localhost"]
    told = await attack(desk, NAMES, names=names)
    assert set(told.pop("localhost")) <= {"127.0.0.1", "::1"}
    assert told == dict.fromkeys(names[:-1], "unknown")


@falls_without(
    "a network the host owns, and no capability",
    *ALL_CAPABILITIES,
    Removal("container/bundle.py", '{"type": "network", "path": room.netns}', '{"type": "network"}'),
)
@pytest.mark.parametrize("what", CHANGES)
async def test_a_desk_cannot_change_its_network(answers: dict[str, object], what: str) -> None:
    assert answers[what] == CHANGES[what][1]


@falls_without(
    "a gate inside the desk",
    Removal(
        "room/room.py",
        "            self.netns, self.gate = syscalls.run_in_new_netns(open_gate)\n",
        "            self.netns, _ = syscalls.run_in_new_netns(open_gate)\n            self.gate = open_gate()\n",
    ),
)
async def test_the_gate_listens_only_inside_the_desk_and_cannot_be_taken(desk: Desk, attack: Attack) -> None:
    assert listening(3128) == []
    told = await attack(desk, GATE)
    assert told == {"dial": "done", "take": "EADDRINUSE", "take all": "EADDRINUSE"}
    assert listening(3128) == []


@falls_without(
    "a copy of every gate",
    Removal(
        "keeper/services.py",
        "gate.fileno())\n        self.join()",
        "gate.fileno())\n            gate.close()\n        self.join()",
    ),
    Removal(
        "keeper/services.py",
        "{gate.fileno(): gate for gate in self.gates.values()}",
        "{gate.fileno(): gate for gate in self.gates.values() if gate.fileno() >= 0}",
    ),
)
async def test_no_program_takes_the_gate_while_the_door_is_dead(
    settings: Config, owning: Owning, attack: Attack
) -> None:
    async with owning(settings) as runtime:
        desk = await runtime.open(Spec())
        await desk.run(KNOCK, timeout=20)
        os.kill(door_of(runtime), signal.SIGKILL)
        told = await attack(desk, GATE)
        assert told == {"dial": "done", "take": "EADDRINUSE", "take all": "EADDRINUSE"}
        assert b"403" in (await desk.run([*KNOCK, "-i"], timeout=20)).stdout


@falls_without(
    "a user for the door",
    Removal("linux/jail.py", "        os.setresgid(uid, uid, uid)\n        os.setresuid(uid, uid, uid)\n", ""),
)
async def test_the_door_has_its_own_user_and_no_privilege(desk: Desk, runtime: KeeperRuntime) -> None:
    await desk.run(KNOCK, timeout=20)
    lines = Path(f"/proc/{door_of(runtime)}/status").read_text().splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert {status[f"Cap{kind}"] for kind in ("Prm", "Eff", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Uid"].split() == status["Gid"].split() == [str(uids.DOOR)] * 4
    assert status["Groups"] == ""
    assert os.stat(f"/proc/{door_of(runtime)}/mem").st_uid == 0, "it could be dumped, or read by its like"


def door_of(runtime: KeeperRuntime) -> int:
    return next(
        pid for pid in children(runtime.keeper.pid) if b"hotdesk.door" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@falls_without(
    "a network of its own",
    cases="""
    TCP-the host's | TCP on IPv6-the host's | UDP-the host's | abstract-the host's | abstract datagram-the host's
    """,
)
@falls_without(
    "a network each",
    cases="""
    TCP-another desk's | TCP on IPv6-another desk's | UDP-another desk's | abstract-another desk's |
    abstract datagram-another desk's
    """,
)
@pytest.mark.parametrize("whose", ["the host's", "another desk's"])
@pytest.mark.parametrize("kind", ["TCP", "TCP on IPv6", "UDP", "abstract", "abstract datagram"])
async def test_sockets_of_the_host_and_of_other_desks_are_out_of_reach(
    desk: Desk, neighbour: Desk, attack: Attack, launch: Launch, whose: str, kind: str
) -> None:
    name = f"\0hotdesk-{secrets.token_hex(8)}"
    process = None
    try:
        with listener(kind, name) as ours:
            address = ours.getsockname() if "abstract" not in kind else name
            if whose != "the host's":
                process, address = await launch(neighbour, LISTEN, kind=kind, name=name + "theirs")
            assert await attack(desk, CALL, kind=kind, address=address) == "ECONNREFUSED"
            mine = await attack(neighbour, CALL, kind=kind, address=address)
            assert mine == ("ECONNREFUSED" if process is None else "done")
            ours.setblocking(False)
            with pytest.raises(BlockingIOError):
                ours.accept() if ours.type == socket.SOCK_STREAM else ours.recv(1)
    finally:
        if process is not None:
            await process.kill()


def listener(kind: str, name: str) -> socket.socket:
    family = socket.AF_UNIX if "abstract" in kind else socket.AF_INET6 if "IPv6" in kind else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM if kind in ("UDP", "abstract datagram") else socket.SOCK_STREAM)
    made.bind(name if "abstract" in kind else ("::1" if "IPv6" in kind else "127.0.0.1", 0))
    if made.type == socket.SOCK_STREAM:
        made.listen()
    return made


@falls_without("so many calls at a gate", Removal("door/process.py", "CONNECTIONS = 256", "CONNECTIONS = 4096"))
async def test_one_desk_has_at_most_256_connections_at_the_door(
    desk: Desk, launch: Launch, runtime: KeeperRuntime
) -> None:
    await desk.run(KNOCK, timeout=20)
    process, made = await launch(desk, MANY_CALLS)
    try:
        door = door_of(runtime)
        await anyio.sleep(1)
        held = [os.readlink(f"/proc/{door}/fd/{fd}") for fd in os.listdir(f"/proc/{door}/fd")]
        assert made > 300
        assert 200 < len([link for link in held if link.startswith("socket:")]) < 256 + 10
    finally:
        await process.kill()


@falls_without(
    "a limit for socket buffers",
    Removal(
        "linux/cgroup.py",
        '        self.put("memory", "memory.kmem.tcp.limit_in_bytes", KERNEL_TCP, optional=True)\n',
        '        self.put("memory", "memory.kmem.tcp.limit_in_bytes", 1 << 32, optional=True)\n',
    ),
    Removal("room/room.py", "    sysctl.shrink_buffers()\n", ""),
    Removal("keeper/keeper.py", "                self.burn_flooded()\n", ""),
)
@pytest.mark.parametrize("flood", [TCP_FLOOD, UDP_FLOOD], ids=["tcp", "udp"])
async def test_unread_socket_buffers_stay_within_a_limit(desk: Desk, attack: Attack, flood: str) -> None:
    """The kernel lets a socket overshoot a little; without a limit these floods queue hundreds of MiB."""
    queued = await attack(desk, flood, pairs=300)
    assert MIB < queued < 96 * MIB


@falls_without("small queues of TCP sockets", Removal("room/room.py", "    sysctl.shrink_buffers()\n", ""))
async def test_unread_data_of_one_connection_stays_within_a_mebibyte(desk: Desk, attack: Attack) -> None:
    """Four connections stay far below a desk's limit for all its sockets, so only each one's own limit holds them."""
    queued = await attack(desk, TCP_FLOOD, pairs=4)
    assert MIB < queued < 4 * MIB, "without the guard about 15 MiB"
