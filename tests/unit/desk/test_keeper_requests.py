"""Tests of a real keeper with a compromised owner: it refuses, keeps serving or ends, and leaks nothing."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, get_args

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hotdesk.config import MIB, Config
from hotdesk.desk.keeper.spawn import Started, start
from hotdesk.desk.owner.runtime import container_runtime
from hotdesk.desk.request import KeeperRequest, Verb, parse, write
from hotdesk.desk.seam import Spec, new_id
from hotdesk.errors import BriefError
from hotdesk.ipc.child import MAX_PACKET_BYTES

pytestmark = pytest.mark.slow

DESK = "i" + "a1" * 10
SMALL: dict[str, object] = {"image": "base", "memory": 128 * MIB, "disk": 64 * MIB, "disk_in": "memory"}
PATIENCE = 20.0


class Owner:
    """An owner that sends its keeper arbitrary data."""

    def __init__(self, started: Started) -> None:
        self.sock = started.sock
        self.pid = started.pid
        self.number = 0

    def send(self, data: bytes, fds: tuple[int, ...] = ()) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        self.sock.sendmsg([data], rights)

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, its descriptors closed; `None` if the keeper disconnected."""
        assert select.select([self.sock], [], [], PATIENCE)[0], "the keeper is silent"
        try:
            data, fds, _, _ = socket.recv_fds(self.sock, MAX_PACKET_BYTES, 8)
        except ConnectionResetError:
            return None
        for fd in fds:
            os.close(fd)
        found = json.loads(data) if data else None
        assert found is None or isinstance(found, dict)
        return found

    def answer(self, number: int) -> dict[str, Any] | None:
        while (message := self.receive()) is not None:
            if message.get("re") == number:
                return message
        return None

    def ask(self, verb: str, desk: str = DESK, **more: object) -> dict[str, Any] | None:
        """Make a request; return its answer."""
        self.number += 1
        self.send(json.dumps({"n": self.number, "verb": verb, "desk": desk, **more}).encode())
        return self.answer(self.number)

    def error(self, verb: str, desk: str = DESK, **more: object) -> str:
        """Make a request that must be refused; return the code of the refusal."""
        answer = self.ask(verb, desk, **more)
        assert answer is not None
        return str(answer["error"]["code"])

    def serves(self) -> bool:
        return self.error("usage", new_id()) == "desk.gone"

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def ended(self) -> int:
        """Wait until the keeper has ended; return its exit code."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        raise AssertionError("the keeper runs on")

    def close(self) -> int:
        self.sock.close()
        return self.ended() if self.pid else 0


@pytest.fixture
def owner(settings: Config) -> Iterator[Owner]:
    one = Owner(start(settings))
    yield one
    assert one.close() == 0


# -- what it is sent -----------------------------------------------------------------------------------------------

NONSENSE: dict[str, bytes] = {
    "noise": bytes(range(256)),
    "zeros": bytes(1000),
    "no JSON": b"{",
    "deep JSON": b"[" * 60_000,
    "deep objects": b'{"n":' * 10_000,
    "a list": b"[]",
    "a number": b"1",
    "text of lone surrogates": b'"\\ud800"',
    "bytes that are no text": b'{"n": 1, "verb": "\xff\xfe"}',
    "another encoding": json.dumps({"n": 1, "verb": "burn", "desk": DESK}).encode("utf-16"),
    "a request and more": write(1, KeeperRequest("burn", DESK)) * 2,
    "a number of many digits": b'{"n": ' + b"9" * 5000 + b"}",
    "a request cut off": write(1, KeeperRequest("open", DESK, Spec(env={"A": "x" * 70_000}))),
    "keys given twice": b'{"n": 1, "n": 2, "verb": "touch", "verb": "exec", "desk": "' + DESK.encode() + b'"}',
}
VERBS: list[object] = ["exec", "OPEN", "", "open ", "__init__", None, 1, ["open"], {"open": 1}, True]
NAMES: list[object] = [
    *("", "../../etc", "/etc/passwd", DESK + "\0", DESK + "/..", DESK + "\n", DESK.upper(), "i" + "." * 20),
    "x" * 60_000,
    *(None, 5, [], {}, True, "i" + "\u0661" * 20, "\ud800"),
]
IMAGES: list[object] = [
    *("../../etc", "/etc/passwd", "..", ".", "", "base/../base", "base\0", "base\n", "BASE", "-base", "b" * 65),
    *("images", "../images/base", "base ", "\ud800", "ba\u200bse", "base.json"),
]
LIMITS: list[tuple[str, str]] = [
    *[(name, value) for name in ("cpus", "memory", "disk", "pids", "deadline") for value in ("-1", "0", "true")],
    *[(name, value) for name in ("cpus", "deadline", "idle") for value in ("NaN", "Infinity", "-Infinity", "1e309")],
    *[(name, value) for name in ("memory", "disk", "pids") for value in ("1.5", "1e30", "9" * 400, "null", '"1G"')],
    *[("disk_in", value) for value in ('"cloud"', '"/tmp"', "null", "[]", '"disk\\u0000"')],
    *[("env", value) for value in ("[]", "null", '"A=b"', '{"A": 1}', '{"A": null}', '{"": "x"}', '{"A=B": "x"}')],
    *[("env", value) for value in ('{"A": "\\u0000"}', '{"\\u0000": "x"}', '{"A": {}}')],
    *[("root", value) for value in ("1", "null", '"yes"')],
    *[("surprise", "1"), ("__class__", "1")],
]


@pytest.mark.container
def test_garbage_is_refused_and_the_next_request_served(owner: Owner) -> None:
    for name, data in NONSENSE.items():
        owner.send(data[: 4 * MAX_PACKET_BYTES - 4096])
        answer = owner.receive()
        assert answer is not None, name
        assert answer["error"]["code"] == "brief", name
        assert owner.serves(), name


@pytest.mark.container
def test_unknown_fields_and_verbs_are_refused(owner: Owner) -> None:
    for verb in VERBS:
        owner.send(json.dumps({"n": 1, "verb": verb, "desk": DESK}).encode())
        answer = owner.receive()
        assert answer is not None, verb
        assert answer["error"]["code"] == "brief", verb
    for verb in get_args(Verb):
        for name in NAMES:
            owner.send(json.dumps({"n": 1, "verb": verb, "desk": name, "port": 1}).encode())
            answer = owner.receive()
            assert answer is not None, name
            assert answer["error"]["code"] == "brief", name
    assert owner.serves()


@pytest.mark.container
def test_an_image_is_a_name_and_never_a_path(owner: Owner, settings: Config) -> None:
    for image in IMAGES:
        assert owner.error("open", new_id(), spec={**SMALL, "image": image}) in ("brief", "image"), image
    assert os.listdir(settings.run / "desks") == []


@pytest.mark.container
def test_values_out_of_range_are_refused(owner: Owner, settings: Config) -> None:
    for name, value in LIMITS:
        owner.number += 1
        head = f'{{"n": {owner.number}, "verb": "open", "desk": "{new_id()}", "spec": {{"image": "base", '
        owner.send(f'{head}"{name}": {value}}}}}'.encode())
        answer = owner.receive()
        assert answer is not None, (name, value)
        assert answer["error"]["code"] == "brief", (name, value)
        assert answer["re"] == owner.number, "whoever asked still waits"
    for port in (0, -1, 65536, 1 << 70, 1.5, True, None, "80", [80]):
        assert owner.error("dial", DESK, port=port) == "brief"
    assert os.listdir(settings.run / "desks") == []


@pytest.mark.container
def test_desks_that_were_never_opened_are_unknown(owner: Owner) -> None:
    for verb in ("usage", "pause", "resume", "root", "dial"):
        assert owner.error(verb, new_id(), port=80) == "desk.gone", verb
    answer = owner.ask("burn", new_id())
    assert answer is not None
    assert "ok" in answer
    owner.send(json.dumps({"n": 1, "verb": "touch", "desk": new_id()}).encode())
    assert owner.serves()


STRANGE_VARIABLES: dict[str, dict[str, str]] = {
    "a lone surrogate": {"A": "\ud800"},
    "an escaped byte": {"A": "\udcff"},
    "a name of them": {"\udcff": "x"},
    "line ends": {"A\nB": "x\r\ny"},
    "controls": {"\x1b[31m": "\x07"},
    "much": {f"A{n}": "x" * 500 for n in range(100)},
    "the loader's": {"LD_PRELOAD": "/evil.so", "PYTHONPATH": "/evil", "PATH": "/evil"},
}


@pytest.mark.container
@pytest.mark.parametrize("name", STRANGE_VARIABLES)
def test_unusual_variables_are_taken_or_refused_and_leave_nothing(owner: Owner, name: str) -> None:
    desk = new_id()
    answer = owner.ask("open", desk, spec={**SMALL, "env": STRANGE_VARIABLES[name]})
    assert answer is not None, "the keeper ended"
    assert "ok" in answer or answer["error"]["code"] in ("brief", "keeper")
    assert owner.ask("burn", desk) is not None
    assert owner.serves()


@pytest.mark.container
def test_an_id_belongs_to_one_desk(owner: Owner) -> None:
    desk = new_id()
    for number in (101, 102, 103):
        owner.send(json.dumps({"n": number, "verb": "open", "desk": desk, "spec": SMALL}).encode())
    answers: list[dict[str, Any]] = []
    while len(answers) < 3:
        message = owner.receive()
        assert message is not None
        if message.get("re") in (101, 102, 103):
            answers.append(message)
    assert sorted("ok" in answer for answer in answers) == [False, False, True]
    assert owner.error("open", desk, spec=SMALL) in ("keeper", "brief")
    assert "ok" in (owner.ask("usage", desk) or {})
    assert "ok" in (owner.ask("burn", desk) or {})
    assert "ok" in (owner.ask("open", desk, spec=SMALL) or {})
    assert "ok" in (owner.ask("burn", desk) or {})


@pytest.mark.container
def test_descriptors_sent_along_are_not_kept(owner: Owner) -> None:
    assert owner.serves()
    before = owner.descriptors()
    reader, writer = os.pipe()
    try:
        for _ in range(50):
            owner.send(write(7, KeeperRequest("usage", new_id())), (writer,) * 10)
            assert owner.answer(7) is not None
            owner.send(b"nonsense", (writer, reader))
            assert owner.receive() is not None
        assert owner.descriptors() <= before
    finally:
        os.close(writer)
        assert os.read(reader, 1) == b""  # nobody else has the other end
        os.close(reader)


@pytest.mark.container
async def test_a_spec_of_the_wrong_kind_is_an_error_and_not_a_wait(settings: Config) -> None:
    async with container_runtime(settings) as runtime:
        for wrong in ({"memory": 2.5e8}, {"pids": 20.0}, {"cpus": True}, {"env": {"A": 1}}):
            with anyio.fail_after(10), pytest.raises((BriefError, TypeError)):
                await runtime.open(Spec(**wrong))


# -- ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.container
@pytest.mark.parametrize("how", ["empty", "half", "whole"])
def test_an_owner_that_disconnects_leaves_nothing(settings: Config, how: str) -> None:
    owner = Owner(start(settings))
    assert "ok" in (owner.ask("open", new_id(), spec=SMALL) or {})
    owner.send(json.dumps({"n": 9, "verb": "open", "desk": new_id(), "spec": SMALL}).encode())
    if how == "empty":
        owner.send(b"")
    elif how == "half":
        owner.sock.shutdown(socket.SHUT_WR)
    else:
        owner.sock.close()
    assert owner.ended() == 0
    owner.sock.close()
    assert os.listdir(settings.run / "desks") == []


def flood(owner: Owner, request: Callable[[], bytes], seconds: float) -> int:
    """Send without reading, as fast as the keeper accepts; return how much it accepted."""
    owner.sock.setblocking(False)
    count = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            owner.send(request())
            count += 1
        except BlockingIOError:
            select.select([], [owner.sock], [], 0.01)
        except OSError:
            break
    owner.sock.setblocking(True)
    return count


FLOODS: dict[str, Callable[[], bytes]] = {
    "requests nobody reads the answers to": lambda: write(1, KeeperRequest("usage", DESK)),
    "nonsense": lambda: b"nonsense",
    "requests to open": lambda: write(1, KeeperRequest("open", new_id(), Spec(image="base", env={"A": "x" * 50_000}))),
    "requests that have no answer": lambda: write(1, KeeperRequest("touch", DESK)),
}


@pytest.mark.sample(2)
@pytest.mark.container
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_or_is_dropped_and_uses_bounded_memory(settings: Config, name: str) -> None:
    owner = Owner(start(settings))
    assert owner.serves()
    before = owner.memory()
    sent = flood(owner, FLOODS[name], 1.0)
    assert sent > 50
    with suppress(OSError, ValueError, IndexError):  # it may have ended, which is acceptable
        assert owner.memory() - before < 64 * MIB
    assert owner.close() == 0


SENDER = """
import socket, sys
sock = socket.socket(fileno=0)
data = b'{"n": 1, "verb": "touch", "desk": "%s"}' % sys.argv[1].encode()
while True:
    sock.send(data)
"""


@pytest.mark.container
def test_a_flood_stops_no_deadline(settings: Config) -> None:
    owner = Owner(start(settings))
    desk = new_id()
    assert "ok" in (owner.ask("open", desk, spec={**SMALL, "deadline": 0.5}) or {})
    senders = [subprocess.Popen([sys.executable, "-c", SENDER, DESK], stdin=owner.sock.fileno()) for _ in "123"]
    try:
        time.sleep(2.5)
        assert os.listdir(settings.run / "desks") == []
    finally:
        for sender in senders:
            sender.kill()
            sender.wait()
    assert owner.close() == 0


# -- reading a request ---------------------------------------------------------------------------------------------

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30), st.just("base"))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)
SPECS = st.one_of(VALUES, st.dictionaries(st.one_of(st.sampled_from(Spec.__slots__), st.text(max_size=8)), VALUES))
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.one_of(st.integers(), VALUES),
        "verb": st.one_of(st.sampled_from(get_args(Verb)), VALUES),
        "desk": st.one_of(st.just(DESK), VALUES),
        "spec": SPECS,
        "port": st.one_of(st.integers(-1, 70_000), VALUES),
        "extra": VALUES,
    },
)


@given(REQUESTS)
@example({"n": 1, "verb": "dial", "desk": DESK, "port": [[]] * 100})
@settings(derandomize=True, deadline=None, max_examples=200)
def test_anything_is_a_request_or_refused(message: dict[str, object]) -> None:
    check_parse(json.dumps(message).encode())


@given(st.binary(max_size=300), st.randoms(use_true_random=False))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_a_request_that_was_spoilt_is_a_request_or_refused(noise: bytes, chance: Random) -> None:
    data = bytearray(write(3, KeeperRequest("open", DESK, Spec(env={"A": "b"}))))
    at = chance.randrange(len(data))
    data[at : at + chance.randrange(5)] = noise[: chance.randrange(10)]
    check_parse(bytes(data))


def check_parse(data: bytes) -> None:
    """Check that bytes are refused, or parsed as a request with exactly their content."""
    try:
        number, request = parse(data)
    except BriefError:
        return
    assert 0 <= number < 1 << 63
    assert parse(write(number, request)) == (number, request)
