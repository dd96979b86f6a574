"""Tests of name resolution between the door and its child process, each of which treats the other as hostile."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from hotdesk.door.http.resolve import (
    ADDRESSES,
    ANSWER,
    NAME,
    UNDER_WAY,
    Resolver,
    UnresolvedError,
    answer,
    list_own_addresses,
    serve,
)

UID = 64998
LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]


@contextmanager
def child(reply: Callable[[dict[str, Any]], bytes | None]) -> Iterator[socket.socket]:
    """Play the child by a script: give the door's end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def work() -> None:
        while question := theirs.recv(1024):
            data = reply(json.loads(question))
            if data is not None and not data:
                break
            if data:
                theirs.send(data)
        theirs.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield ours
    finally:
        ours.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        ours.close()


def telling(*addresses: str, own: tuple[str, ...] = ()) -> Callable[[dict[str, Any]], bytes]:
    return lambda asked: json.dumps({"id": asked["id"], "addresses": addresses, "own": own}).encode()


@contextmanager
def resolver(sock: socket.socket, seconds: float = 5.0) -> Iterator[Resolver]:
    made = Resolver(sock, seconds)
    made.listen()
    try:
        yield made
    finally:
        asyncio.get_running_loop().remove_reader(sock)


async def resolved(reply: Callable[[dict[str, Any]], bytes | None], host: str = "a.test", **kwargs: Any) -> list[str]:
    with child(reply) as sock, resolver(sock, kwargs.pop("seconds", 5.0)) as asking:
        return [str(address) for address in await asking.resolve(host, **kwargs)]


async def test_a_name_becomes_the_addresses_to_dial() -> None:
    assert await resolved(telling("1.1.1.1", "2606:4700::1")) == ["1.1.1.1", "2606:4700::1"]


async def test_one_private_address_refuses_the_whole_answer() -> None:
    with pytest.raises(UnresolvedError, match=r"10\.0\.0\.1 is a private network"):
        await resolved(telling("1.1.1.1", "10.0.0.1"))


async def test_a_rule_may_admit_private_networks() -> None:
    assert await resolved(telling("10.0.0.1"), private=True) == ["10.0.0.1"]
    assert await resolved(telling("10.0.0.1"), named=[ip_network("10.0.0.0/24")]) == ["10.0.0.1"]


async def test_an_address_of_this_host_is_refused() -> None:
    with pytest.raises(UnresolvedError, match="is an address of this machine"):
        await resolved(telling("8.8.8.8", own=("8.8.8.8",)))


async def test_an_address_is_checked_like_a_name_and_never_looked_up() -> None:
    asked: list[str] = []

    def reply(question: dict[str, Any]) -> bytes:
        asked.append(question["name"])
        return telling("1.1.1.1", own=("8.8.8.8",))(question)

    assert await resolved(reply, "9.9.9.9") == ["9.9.9.9"]
    for host in ("8.8.8.8", "127.0.0.1", "::ffff:10.0.0.1", "169.254.169.254"):
        with pytest.raises(UnresolvedError, match=" is "):
            await resolved(reply, host)
    assert set(asked) == {""}


async def test_an_ipv4_mapped_address_is_dialled_as_ipv4() -> None:
    assert await resolved(telling("::ffff:1.1.1.1")) == ["1.1.1.1"]


BROKEN = {
    "no json": b"{",
    "no object": b"[1]",
    "a deep one": b"[" * 60000,
    "no addresses": b'{"id": 1}',
    "no list": b'{"id": 1, "addresses": {"a": 1}, "own": []}',
    "no address": b'{"id": 1, "addresses": ["a.test"], "own": []}',
    "own that is none": b'{"id": 1, "addresses": ["1.1.1.1"], "own": ["me"]}',
    "own left out": b'{"id": 1, "addresses": ["1.1.1.1"]}',
    "nothing found": b'{"id": 1, "addresses": [], "own": []}',
    "another's answer": b'{"id": 2, "addresses": ["1.1.1.1"], "own": []}',
    "a truth for a number": b'{"id": true, "addresses": ["1.1.1.1"], "own": []}',
    "not text": b"\xff\xfe\x00",
    "an error of its own wording": b'{"id": 1, "error": "\\u001b[2J"}',
}


@pytest.mark.slow
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_answer_resolves_nothing_and_says_so_plainly(data: bytes) -> None:
    with pytest.raises(UnresolvedError) as told:
        await resolved(lambda _: data, seconds=0.2)
    assert str(told.value).isprintable()


async def test_no_more_addresses_are_taken_than_will_be_dialled() -> None:
    many = [f"1.1.1.{number}" for number in range(1, 100)]
    assert await resolved(telling(*many)) == many[:ADDRESSES]


async def test_a_child_that_is_silent_is_not_waited_for() -> None:
    with pytest.raises(UnresolvedError, match="does not respond"):
        await resolved(lambda _: None, seconds=0.05)


async def test_a_child_that_is_gone_is_reported_at_once_and_ever_after() -> None:
    with child(lambda _: b"") as sock, resolver(sock, 30) as asking:
        for _ in range(2):
            with pytest.raises(UnresolvedError, match="has ended"):
                await asyncio.wait_for(asking.resolve("a.test"), 5)


@pytest.mark.slow
async def test_concurrent_lookups_are_limited() -> None:
    with child(lambda _: None) as sock, resolver(sock, 0.3) as asking:
        tasks = [asyncio.create_task(asking.resolve("a.test")) for _ in range(UNDER_WAY)]
        await asyncio.sleep(0)
        with pytest.raises(UnresolvedError, match="too many"):
            await asking.resolve("b.test")
        assert all(isinstance(one, UnresolvedError) for one in await asyncio.gather(*tasks, return_exceptions=True))
        with pytest.raises(UnresolvedError, match="does not respond"):
            await asking.resolve("b.test")


async def test_a_late_answer_is_dropped() -> None:
    late: list[bytes] = []

    def reply(asked: dict[str, Any]) -> bytes | None:
        late.append(telling("1.1.1.1")(asked))
        return None if asked["id"] == 1 else late.pop(0)

    with child(reply) as sock, resolver(sock, 0.1) as asking:
        for _ in range(2):
            with pytest.raises(UnresolvedError, match="does not respond"):
                await asking.resolve("a.test")


async def test_an_answer_to_a_call_given_up_at_that_moment_does_no_harm() -> None:
    loop, troubles = asyncio.get_running_loop(), list[dict[str, Any]]()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, trouble: troubles.append(trouble))
    with ours, theirs, resolver(ours) as asking:
        task = asyncio.create_task(asking.resolve("a.test"))
        await asyncio.sleep(0)
        theirs.send(telling("1.1.1.1")(json.loads(theirs.recv(1024))))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    loop.set_exception_handler(before)
    assert troubles == []


NAMES = {
    "a.test": True,
    "localhost": True,
    "xn--bcher-kva.example": True,
    "a" * 63 + ".test": True,
    ".".join(["a" * 49] * 5) + "abcd": True,
    ".".join(["a" * 49] * 5) + "abcde": False,
    "a" * 64 + ".test": False,
    "a." + "b" * 64: False,
    "": False,
    "a..test": False,
    "a.test.": False,
    ".test": False,
    "-a.test": False,
    "a-.test": False,
    "a.test-": False,
    "A.test": False,
    "a_b.test": False,
    "a b.test": False,
    "a.test\n": False,
    "a\0.test": False,
    "b\u00fccher.example": False,
    "127.1": False,
    "2130706433": False,
    "0x7f.1": False,
    "0x7f000001": False,
    "1.2.3.4.5": False,
    "a.1": False,
    "../etc": False,
    "/run/x": False,
    "fe80::1%lo": False,
}


@pytest.mark.parametrize(("name", "good"), NAMES.items())
def test_a_name_is_letters_digits_and_hyphens(name: str, good: bool) -> None:
    assert bool(NAME.match(name)) is good
    if not good and name:
        assert answer(json.dumps({"id": 1, "name": name}).encode()) == {"id": 1, "error": "not a name"}


async def test_an_invalid_name_is_never_looked_up() -> None:
    with pytest.raises(UnresolvedError, match="not a name"):
        await resolved(lambda _: pytest.fail("asked"), "a_b.test")


def test_an_invalid_question_does_not_stop_the_child() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    ours.settimeout(10)
    for question in (b"{", b"[" * 1000, b'{"id": 5}', b'{"id": "1", "name": "a"}', b"\xff", b"x" * 5000):
        ours.send(question)
    ours.send(json.dumps({"id": 7, "name": "localhost"}).encode())
    while (told := json.loads(ours.recv(ANSWER)))["id"] != 7:
        assert "error" in told
    assert "127.0.0.1" in told["addresses"]
    ours.shutdown(socket.SHUT_WR)
    thread.join(10)
    assert not thread.is_alive()
    ours.close()
    theirs.close()


def test_a_host_knows_its_own_addresses() -> None:
    kernel = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, timeout=10, check=True).stdout
    told = {ip_address(line.split()[3].split("/")[0]) for line in kernel.splitlines()}
    assert {ip_address(text) for text in list_own_addresses()} == told


LIVE = """
import asyncio, json, os, socket, subprocess, sys, threading, time
from ipaddress import ip_network
from pathlib import Path
from hotdesk.linux import syscalls as kernel
from hotdesk.door.http.resolve import Resolver, UnresolvedError, start_resolver

uid, folder = int(sys.argv[1]), Path(sys.argv[2])
kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWNET)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
kernel.raise_loopback()
files = {"resolv.conf": "nameserver 127.0.0.1\\nsearch corp.test\\n", "nsswitch.conf": "hosts: files dns\\n",
         "hosts": "127.0.0.1 localhost\\n10.0.0.9 erp.internal\\n"}
for name, text in files.items():
    (folder / name).write_text(text)
    kernel.mount(str(folder / name), f"/etc/{name}", None, kernel.MS_BIND)

asked = []
zone = {"good.test": "8.8.4.4", "inside.test": "10.0.0.1", "nowhere.test.corp.test": "8.8.4.4"}

def serve_names():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    while True:
        data, peer = server.recvfrom(512)
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        name, question = ".".join(labels), data[12 : at + 5]
        asked.append(name)
        found = zone.get(name) if question[-3] == 1 else None
        flags = b"\\x81\\x80" if name in zone else b"\\x81\\x83"
        record = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4" + socket.inet_aton(found) if found else b""
        counts = bytes([0, 1, 0, bool(found), 0, 0, 0, 0])
        server.sendto(data[:2] + flags + counts + question + record, peer)

secret = os.open("/etc/shadow", os.O_RDONLY)
sock, pid = start_resolver(uid)
threading.Thread(target=serve_names, daemon=True).start()

async def main():
    resolver = Resolver(sock)
    resolver.listen()
    told = {}
    for host in ("good.test", "inside.test", "nowhere.test", "localhost", "erp.internal"):
        try:
            told[host] = [str(address) for address in await resolver.resolve(host)]
        except UnresolvedError as e:
            told[host] = str(e)
    told["erp.internal, private"] = [str(address) for address in await resolver.resolve("erp.internal", private=True)]
    return told

told = asyncio.run(main())
status = dict(line.split(":\\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
memory = sum(int(line.split()[1]) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
             if line.startswith("Private_Dirty"))
links = sorted(os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) > 2)
shut = os.stat(f"/proc/{pid}/environ").st_uid == 0
sock.close()
ended = os.waitpid(pid, 0)[1]
print(json.dumps([told, asked, status, links, shut, memory, ended]))
"""


@pytest.mark.slow
@pytest.mark.container
def test_a_live_child_resolves_by_the_hosts_own_files_and_has_nothing_else(tmp_path: Any) -> None:
    told, asked, status, links, shut, memory, ended = run(LIVE, str(tmp_path))
    assert told == {
        "good.test": ["8.8.4.4"],
        "inside.test": "10.0.0.1 is a private network",
        "nowhere.test": "no such name",
        "localhost": "127.0.0.1 is loopback",
        "erp.internal": "10.0.0.9 is a private network",
        "erp.internal, private": ["10.0.0.9"],
    }
    assert set(asked) == {"good.test", "inside.test", "nowhere.test"}
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Uid"].split()) == ("1", [str(UID)] * 4)
    assert links == ["socket"]
    assert (shut, ended) == (True, 0)
    assert memory < 8 << 10


BECOME = """
import errno, json, os, socket, sys
from hotdesk.door.http import resolve

def attempt(work, *args):
    try:
        work(*args)
        return "done"
    except OSError as e:
        return errno.errorcode[e.errno]

parent, folder = os.getppid(), sys.argv[2]
os.chmod(folder, 0o777)
server = socket.create_server(("127.0.0.1", 0))
resolve.become_resolver(int(sys.argv[1]))
print(json.dumps({
    "read": attempt(lambda: open("/etc/hosts").close()),
    "write": attempt(lambda: open(folder + "/file", "w").close()),
    "dial": attempt(lambda: socket.create_connection(server.getsockname())),
    "name server": attempt(lambda: socket.create_connection(("127.0.0.1", 53))),
    "listen": attempt(lambda: socket.create_server(("127.0.0.1", 0))),
    "signal": attempt(os.kill, parent, 0),
}))
"""


@pytest.mark.container
def test_the_child_reads_files_asks_name_servers_and_does_nothing_else(tmp_path: Any) -> None:
    told = run(BECOME, str(tmp_path))
    assert told.pop("name server") in ("ECONNREFUSED", "done")
    assert told == {"read": "done", "write": "EACCES", "dial": "EACCES", "listen": "EACCES", "signal": "EPERM"}


def run(script: str, folder: str) -> Any:
    """Run a script in a process of its own; return what it printed."""
    env = {"PATH": os.defpath, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", script, str(UID), folder]
    done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)
