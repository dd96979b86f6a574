"""Tests of an SSH connection to a desk: authentication, channels and windows."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from tests.ssh_client import SshTestClient

from hotdesk.cli.ssh import channel as messages
from hotdesk.cli.ssh.connection import MAX_CHANNELS, MAX_REFUSALS, DeskOwner, SshConnection
from hotdesk.cli.ssh.desk_link import DeskLink
from hotdesk.cli.ssh.fields import FieldReader, SshError, encode_string, encode_uint32
from hotdesk.cli.ssh.forwarding import GATE_PORT
from hotdesk.desk.room.room import GATE
from hotdesk.errors import BriefError
from hotdesk_guest import wire

STARTED = wire.encode_frame(wire.EVENT, 1, wire.encode({"pid": 7}))


class Room:
    """A client that has exchanged keys, a desk that does what the test says, and the data between them."""

    def __init__(self) -> None:
        self.client = SshTestClient()
        self.client.exchange()
        self.sockets = socket.socketpair()
        self.link = DeskLink(self.sockets[0], b"")
        self.ports: list[socket.socket] = []
        self.notes: list[str] = []
        owner = DeskOwner("iabc", self.borrow, self.call)
        self.connection = SshConnection(self.client.transport, owner, self.notes.append)

    def borrow(self, user: str) -> DeskLink:
        """Return a link for the desk's user; this desk has no root."""
        if user == "root":
            raise BriefError("opened without root")
        return self.link

    def call(self, route: str) -> tuple[socket.socket, bytes]:
        ours, theirs = socket.socketpair()
        self.ports.append(theirs)
        return ours, route.encode()

    def send(self, kind: int, *parts: bytes) -> None:
        self.client.transport.buffer += self.client.seal(bytes((kind,)) + b"".join(parts))
        self.connection.take_all()

    def read(self) -> FieldReader:
        return FieldReader(self.client.read())

    def sign_in(self, user: bytes = b"user") -> int:
        """Authenticate as a user; return the answer."""
        self.send(50, encode_string(user), encode_string(b"ssh-connection"), encode_string(b"none"))
        return self.read().read_byte()

    def open(self, kind: bytes = b"session", *parts: bytes) -> FieldReader:
        """Open a channel; return the answer."""
        self.send(
            messages.OPEN, encode_string(kind), encode_uint32(5), encode_uint32(1 << 20), encode_uint32(1 << 15), *parts
        )
        return self.read()

    def request(self, name: bytes, *parts: bytes, channel: int = 1) -> int:
        """Send a channel request; return the answer."""
        self.send(messages.REQUEST, encode_uint32(channel), encode_string(name), b"\1", *parts)
        return self.read().read_byte()

    def hear(self, *frames: bytes) -> None:
        self.link.reader.buffer += b"".join(frames)
        self.link.take_frames()
        self.connection.pump()

    def orders(self) -> list[tuple[int, int, bytes]]:
        frames = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT).feed(bytes(self.link.out))
        self.link.out.clear()
        return frames


@pytest.fixture
def room() -> Iterator[Room]:
    opened = Room()
    yield opened
    for sock in (*opened.sockets, *opened.ports):
        sock.close()
    opened.connection.leave()


def test_nothing_is_done_before_authentication(room: Room) -> None:
    with pytest.raises(SshError, match="before it signed in"):
        room.open()


def test_an_unknown_user_is_reported_until_too_many_attempts(room: Room) -> None:
    assert [room.sign_in(b"anna"), room.sign_in(b"root")] == [51, 51]
    assert room.notes == ["a desk has no user 'anna'; sign in as `user`, or as `root` if allowed"]
    for _ in range(MAX_REFUSALS - 2):
        room.sign_in(b"root")
    with pytest.raises(SshError, match="too many"):
        room.sign_in(b"root")


def test_a_session_has_one_program(room: Room) -> None:
    assert room.sign_in() == 52
    assert room.open().read_byte() == messages.OPEN_CONFIRMATION
    assert room.request(b"exec", encode_string(b"true")) == messages.SUCCESS
    assert room.request(b"exec", encode_string(b"true")) == messages.FAILURE
    assert (
        room.request(b"pty-req", encode_string(b"x"), *[encode_uint32(9)] * 4, encode_string(b"")) == messages.FAILURE
    )


def test_output_and_exit_code_reach_the_client(room: Room) -> None:
    room.sign_in()
    room.open()
    room.request(b"exec", encode_string(b"true"))
    room.hear(STARTED, wire.encode_frame(wire.DATA, 1, b"\1out"), wire.encode_frame(wire.DATA, 1, b"\2err"))
    room.hear(wire.encode_frame(wire.REPLY, 1, wire.encode({"code": 3})))
    assert [bytes(room.client.read()) for _ in range(5)] == [
        b"\x5e" + encode_uint32(5) + encode_string(b"out"),
        b"\x5f" + encode_uint32(5) + encode_uint32(1) + encode_string(b"err"),
        b"\x60" + encode_uint32(5),
        b"\x62" + encode_uint32(5) + encode_string(b"exit-status") + b"\0" + encode_uint32(3),
        b"\x61" + encode_uint32(5),
    ]


def test_unread_output_waits_and_returns_no_credit(room: Room) -> None:
    room.sign_in()
    room.send(messages.OPEN, encode_string(b"session"), encode_uint32(5), encode_uint32(10), encode_uint32(1 << 15))
    room.read()
    room.request(b"exec", encode_string(b"true"))
    room.orders()
    block = wire.encode_frame(wire.DATA, 1, b"\1" + bytes(32768))
    room.hear(STARTED, *[block] * 7)
    assert room.read().data == b"\x5e" + encode_uint32(5) + encode_string(bytes(10))
    assert not room.client.transport.out
    assert room.orders() == []
    room.send(messages.WINDOW_ADJUST, encode_uint32(1), encode_uint32(1 << 20))
    room.connection.pump()
    assert sum(kind == wire.CREDIT for kind, _, _ in room.orders()) > 0


def test_a_client_keeps_to_its_window(room: Room) -> None:
    room.sign_in()
    room.open()
    room.request(b"exec", encode_string(b"cat"))
    room.hear(STARTED)
    for _ in range(8):
        room.send(messages.DATA, encode_uint32(1), encode_string(bytes(32768)))
    with pytest.raises(SshError, match="more data than the channel window"):
        room.send(messages.DATA, encode_uint32(1), encode_string(b"x"))


def test_a_disconnect_signals_the_program(room: Room) -> None:
    room.sign_in()
    room.open()
    room.request(b"shell")
    room.orders()
    room.connection.leave()
    assert [(kind, wire.decode(payload) if payload else None) for kind, _, payload in room.orders()] == [
        (wire.SIGNAL, {"signal": 1, "tree": False}),
        (wire.DROP, None),
    ]


def test_an_impossible_terminal_size_is_replaced(room: Room) -> None:
    room.sign_in()
    room.open()
    assert (
        room.request(b"pty-req", encode_string(b"xterm"), *[encode_uint32(0)] * 4, encode_string(b""))
        == messages.SUCCESS
    )
    room.request(b"shell")
    [(_, _, payload)] = room.orders()
    ask = wire.decode(payload)
    assert isinstance(ask, dict)
    assert (ask["pty"], ask["env"]) == ([24, 80], {"TERM": "xterm"})


@pytest.mark.parametrize("host", [b"example.com", b"10.0.0.1", b"127.0.0.1.evil", b"", b"\xff", b"::", b"0"])
def test_no_other_host_is_dialled(room: Room, host: bytes) -> None:
    room.sign_in()
    answer = room.open(b"direct-tcpip", encode_string(host), encode_uint32(80), encode_string(b"x"), encode_uint32(1))
    assert (answer.read_byte(), answer.read_uint32(), answer.read_uint32()) == (
        messages.OPEN_FAILURE,
        5,
        messages.PROHIBITED,
    )
    assert not room.ports


def test_the_desks_gate_is_not_dialled(room: Room) -> None:
    room.sign_in()
    answer = room.open(
        b"direct-tcpip", encode_string(b"localhost"), encode_uint32(GATE_PORT), encode_string(b"x"), encode_uint32(1)
    )
    assert answer.read_byte() == messages.OPEN_FAILURE
    assert GATE[1] == GATE_PORT
    assert not room.ports


def dial(room: Room) -> socket.socket:
    """Open a channel to a port; return the owner's end."""
    room.sign_in()
    room.send(messages.OPEN, encode_string(b"direct-tcpip"), encode_uint32(5), encode_uint32(1 << 20),
              encode_uint32(1 << 15), encode_string(b"localhost"), encode_uint32(80), encode_string(b"x"),
              encode_uint32(1))  # fmt: skip
    [port] = room.ports
    port.setblocking(False)
    assert port.recv(100) == b"dial/80"
    return port


def turn(room: Room) -> None:
    """Read the port's data once."""
    [forwarding] = room.connection.channels.values()
    forwarding.flush()  # type: ignore[attr-defined]
    forwarding.receive()  # type: ignore[attr-defined]
    room.connection.pump()


def test_a_forwarded_port_carries_data_once_connected(room: Room) -> None:
    port = dial(room)
    port.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\nearly")
    turn(room)
    assert room.read().read_byte() == messages.OPEN_CONFIRMATION
    assert room.read().data == b"\x5e" + encode_uint32(5) + encode_string(b"early")
    room.send(messages.DATA, encode_uint32(1), encode_string(b"hello"))
    assert port.recv(100) == b"hello"
    assert room.read().data == b"\x5d" + encode_uint32(5) + encode_uint32(5)
    room.send(messages.EOF, encode_uint32(1))
    assert port.recv(100) == b""
    port.close()
    turn(room)
    assert [room.read().read_byte(), room.read().read_byte()] == [messages.EOF, messages.CLOSE]


def test_a_port_that_is_refused_says_why(room: Room) -> None:
    port = dial(room)
    port.sendall(b'HTTP/1.1 503 Error\r\n\r\n{"text": "nobody listens\\u001b[2J"}')
    port.close()
    turn(room)
    turn(room)
    answer = room.read()
    assert (answer.read_byte(), answer.read_uint32(), answer.read_uint32()) == (
        messages.OPEN_FAILURE,
        5,
        messages.CONNECT_FAILED,
    )
    assert answer.read_text() == "nobody listens\\x1b[2J"
    room.connection.pump()
    assert not room.connection.channels


def test_the_number_of_channels_is_limited(room: Room) -> None:
    room.sign_in()
    for _ in range(MAX_CHANNELS):
        assert room.open().read_byte() == messages.OPEN_CONFIRMATION
    answer = room.open()
    assert (answer.read_byte(), answer.read_uint32(), answer.read_uint32()) == (
        messages.OPEN_FAILURE,
        5,
        messages.RESOURCE_SHORTAGE,
    )


@pytest.mark.parametrize("name", [b"tcpip-forward", b"streamlocal-forward@openssh.com"])
def test_a_request_to_listen_for_the_desk_is_refused_with_a_reason(room: Room, name: bytes) -> None:
    room.sign_in()
    room.send(80, encode_string(name), b"\1", encode_string(b"localhost"), encode_uint32(80))
    assert room.read().read_byte() == 82
    assert "(-R) is refused" in room.notes[0]


def test_a_channel_that_is_not_open_ends_the_connection(room: Room) -> None:
    room.sign_in()
    with pytest.raises(SshError, match="not open"):
        room.send(messages.DATA, encode_uint32(7), encode_string(b"x"))
