"""Accepts the guests of pods: TLS with the agent's own certificate, and a token that one pod may present once.

Every program in a pod can connect here, and so can, where a cluster enforces no network policies, every other pod. So
handshakes are bounded in number, for each address, and in time; one too many ends the oldest of the address that has
most of them; a pod whose guest is connected gets none; and a token counts only from its own pod's address.
"""

from __future__ import annotations

import functools
import hmac
import json
import secrets
import socket
import ssl
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hotdesk.dataclass import dataclass
from hotdesk.desk.pod.streams import DeskStreams
from hotdesk.errors import DeskGone, HostError, HotdeskError
from hotdesk.ipc.tasks import Background
from hotdesk.linux.sockets import accept, receive, send

MAX_HANDSHAKES = 128
MAX_OF_ADDRESS = 4
"""Handshakes of one address at a time; a pod needs one."""
HANDSHAKE_SECONDS = 10.0
ADDRESS_SECONDS = 30.0
"""Seconds to learn the address of a pod whose guest has presented its token."""
MAX_HELLO = 512
TOKEN_BYTES = 32
_READ = 1 << 16
_RETRY_S = 0.1
_YEARS = timedelta(days=3650)


class TlsServerChannel:
    """The agent's end of a guest's connection."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, seconds in ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3)):
            sock.setsockopt(socket.IPPROTO_TCP, option, seconds)
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    async def shake_hands(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.exchange()
            else:
                await self.flush()
                return

    async def exchange(self) -> None:
        """Send what waits, and receive more; raise `EOFError` at the end."""
        await self.flush()
        if not (data := await receive(self.sock, _READ)):
            raise EOFError
        self.incoming.write(data)

    async def flush(self) -> None:
        while data := self.outgoing.read():
            await send(self.sock, data)

    async def read_line(self, limit: int) -> bytes:
        """Read one line byte by byte, so that nothing after it is taken; raise `ValueError` if it is too long."""
        line = b""
        while not line.endswith(b"\n"):
            try:
                byte = self.tls.read(1)
            except ssl.SSLWantReadError:
                await self.exchange()
                continue
            if not byte:
                raise EOFError
            line += byte
            if len(line) > limit:
                raise ValueError("the first message is too long")
        return line

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _READ):
            self.tls.write(data[start : start + _READ])
            await self.flush()


@dataclass(slots=True)
class ExpectedGuest:
    """A pod whose guest has not connected yet."""

    desk: str
    token: str
    build_seed: Callable[[bytes], bytes]
    """Returns the message for a guest with this version of Python's bytecode; an error refuses the pod."""
    address: str = ""
    """The pod's address, as the API server reports it."""
    located: anyio.Event = field(default_factory=anyio.Event)
    """Set when the address is known, or when the pod has ended."""
    arrived: anyio.Event = field(default_factory=anyio.Event)
    streams: DeskStreams | None = None
    is_used: bool = False
    refusal: HotdeskError | None = None
    on_end: Callable[[], None] = lambda: None

    def locate(self, address: str) -> None:
        """Note the pod's address; the first one stays."""
        if address and not self.address:
            self.address = address
            self.located.set()

    def make_seed(self, python: str) -> bytes:
        """Return the message for the guest; note why the pod is refused, and raise `ValueError`, if it is."""
        try:
            return self.build_seed(bytes.fromhex(python))
        except HotdeskError as e:
            self.refusal = e
            self.arrived.set()
            raise ValueError("its pod is refused") from e


@dataclass(slots=True)
class Handshake:
    """A caller whose token has not been accepted yet."""

    address: str
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class GuestListener:
    """Accepts guests for the pods that are expected."""

    def __init__(
        self, listener: socket.socket, address: str, tasks: Background, log: Callable[[Exception], None]
    ) -> None:
        listener.setblocking(False)
        self.listener = listener
        self.address = address
        """The agent's address for pods, as ADDRESS:PORT."""
        self.tasks = tasks
        self.log = log
        self.context, self.certificate = _make_listener_identity()
        self.expected: dict[str, ExpectedGuest] = {}
        self.handshakes: list[Handshake] = []
        """The oldest first."""
        self.by_address: Counter[str] = Counter()
        self.connected: dict[str, DeskStreams] = {}
        """The connections of guests by the addresses of their pods."""

    def expect(self, desk: str, build_seed: Callable[[bytes], bytes], on_end: Callable[[], None]) -> ExpectedGuest:
        """Expect a pod's guest from now on; its token is new."""
        token = f"{desk}.{secrets.token_urlsafe(TOKEN_BYTES)}"
        guest = self.expected[desk] = ExpectedGuest(desk, token, build_seed, on_end=on_end)
        return guest

    def forget(self, desk: str) -> None:
        if (guest := self.expected.pop(desk, None)) is not None:
            guest.located.set()

    async def wait(self, guest: ExpectedGuest, seconds: float) -> DeskStreams:
        """Wait for a guest; from then on its token is worthless."""
        try:
            with anyio.move_on_after(seconds):
                await guest.arrived.wait()
        finally:
            self.forget(guest.desk)
        if guest.refusal is not None:
            raise guest.refusal
        if guest.streams is None:
            raise DeskGone(f"desk {guest.desk} did not start: its guest did not connect within {seconds:.0f} s")
        return guest.streams

    async def serve(self) -> None:
        while True:
            try:
                raw = await accept(self.listener)
                address = str(raw.getpeername()[0])
            except OSError:
                await anyio.sleep(_RETRY_S)
                continue
            if self.by_address[address] >= MAX_OF_ADDRESS or self.needs_none(address):
                raw.close()
                continue
            if len(self.handshakes) >= MAX_HANDSHAKES:
                self.evict()
            self.by_address[address] += 1
            self.handshakes.append(shake := Handshake(address))
            self.tasks.start(functools.partial(self.talk, raw, shake))

    def needs_none(self, address: str) -> bool:
        """Return whether the guest of a caller's pod is connected already, and no other is expected from there."""
        streams = self.connected.get(address)
        if streams is None or streams.is_over:
            return False
        return all(guest.address != address for guest in self.expected.values())

    def evict(self) -> None:
        """End the oldest handshake of the address that has most of them: a guest needs one."""
        chosen = max(self.handshakes, key=lambda each: self.by_address[each.address])
        chosen.scope.cancel()
        self.remove(chosen)

    def remove(self, shake: Handshake) -> None:
        """Count a handshake no more. A second call does nothing."""
        if any(each is shake for each in self.handshakes):
            self.handshakes = [each for each in self.handshakes if each is not shake]
            self.by_address[shake.address] -= 1
            self.by_address += Counter()  # drops addresses without a handshake

    async def talk(self, raw: socket.socket, shake: Handshake) -> None:
        """Greet one caller. Nothing that it sends may end the agent."""
        address, is_kept = shake.address, False
        try:
            with shake.scope:
                is_kept = await self.greet(raw, shake)
        except (OSError, EOFError, ValueError, TimeoutError, RecursionError) as e:
            self.log(
                HostError(f"a connection from {address} to the agent's port for pods was rejected: {str(e)[:200]}")
            )
        finally:
            self.remove(shake)
            if not is_kept:
                raw.close()

    async def greet(self, raw: socket.socket, shake: Handshake) -> bool:
        """Do the handshake, check the token and hand the connection over; return whether that was done."""
        channel = TlsServerChannel(raw, self.context)
        with anyio.fail_after(HANDSHAKE_SECONDS):
            await channel.shake_hands()
            hello = _parse_hello(await channel.read_line(MAX_HELLO))
        guest = self.find(hello["token"])
        with anyio.fail_after(ADDRESS_SECONDS):
            await guest.located.wait()
        if guest.address != shake.address:
            raise ValueError(f"it presented the token of a pod with the address {guest.address or 'of an ended one'}")
        if guest.is_used:
            raise ValueError("its token was used before")
        guest.is_used = True
        self.remove(shake)  # the only one for this pod; it is not evicted any more
        with anyio.fail_after(HANDSHAKE_SECONDS):
            seed = guest.make_seed(hello["python"])
            await channel.write(len(seed).to_bytes(4, "big") + seed)
        if self.expected.get(guest.desk) is not guest:
            raise ValueError("it took too long")
        guest.streams = DeskStreams(channel, guest.on_end)
        self.connected = {host: each for host, each in self.connected.items() if not each.is_over}
        self.connected[guest.address] = guest.streams
        guest.arrived.set()
        return True

    def find(self, token: str) -> ExpectedGuest:
        """Return the pod with this token; raise `ValueError` if there is none."""
        guest = self.expected.get(token.partition(".")[0])
        if guest is None or not hmac.compare_digest(guest.token, token):
            raise ValueError("its token is unknown")
        return guest


def _parse_hello(line: bytes) -> Mapping[str, str]:
    """Return the fields of a guest's first message; raise `ValueError` for anything but two short texts."""
    hello = json.loads(line)
    if not isinstance(hello, dict) or hello.keys() != {"token", "python"}:
        raise ValueError("its first message is malformed")
    if not all(isinstance(value, str) and value.isascii() for value in hello.values()):
        raise ValueError("its first message is malformed")
    return hello


def _make_listener_identity() -> tuple[ssl.SSLContext, str]:
    """Make a key and a certificate for one life of an agent; pods accept only this certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hotdesk pod agent")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    ).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.pem"
        path.touch(0o600)
        path.write_bytes(private + certificate)
        context.load_cert_chain(path)
    return context, certificate.decode()
