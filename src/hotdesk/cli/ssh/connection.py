"""An SSH connection to one desk: the client's user in the desk, and its channels (RFC 4252, 4254)."""

from __future__ import annotations

from hotdesk.cli.quick.arguments import DESK_SUFFIX
from hotdesk.cli.ssh import channel as messages
from hotdesk.cli.ssh.channel import PROHIBITED, RESOURCE_SHORTAGE, UNKNOWN_TYPE, SshChannel
from hotdesk.cli.ssh.fields import FieldReader, SshError, encode_names, encode_string
from hotdesk.cli.ssh.forwarding import GATE_PORT, LOOPBACK, PortForwarding, fail_opening
from hotdesk.cli.ssh.session import Session
from hotdesk.cli.ssh.transport import SERVICE_ACCEPT, SERVICE_REQUEST
from hotdesk.errors import HotdeskError, make_printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    from hotdesk.cli.ssh.desk_link import DeskLink
    from hotdesk.cli.ssh.transport import Transport

USERAUTH_REQUEST, USERAUTH_FAILURE, USERAUTH_SUCCESS, USERAUTH_BANNER = 50, 51, 52, 53
GLOBAL_REQUEST, REQUEST_SUCCESS, REQUEST_FAILURE = 80, 81, 82
USERS = ("user", "root")
MAX_CHANNELS = 256
MAX_REFUSALS = 6
"""Maximum failed sign-in attempts."""
NO_REMOTE = (
    "remote forwarding (-R) is refused: a desk that could connect to this machine would bypass its egress proxy; "
    "allow a host with `hotdesk open --allow`, or copy the files that the desk needs"
)
NO_SOCKETS = "only TCP ports of the desk can be forwarded, not its Unix sockets"


class DeskOwner:
    """Connects to the desk's owner; each call is a connection of its own."""

    def __init__(
        self,
        desk: str,
        link: Callable[[str], DeskLink],
        call: Callable[[str], tuple[_socket.socket, bytes]],
    ) -> None:
        self.desk = desk
        self.link = link
        """Returns the link to the guest that runs a user's programs; raises `HotdeskError` if there is none."""
        self.call = call
        """Connects to the owner; returns the connection, and the request to send first for a path below the desk's."""


class SshConnection:
    """One client connection."""

    def __init__(self, transport: Transport, owner: DeskOwner, tell: Callable[[str], None]) -> None:
        self.transport = transport
        self.owner = owner
        self.tell = tell
        self.link: DeskLink | None = None
        """The link of the signed-in user, or `None` before that."""
        self.channels: dict[int, SshChannel] = {}
        self.last = 0
        self.refusals = 0

    def take_all(self) -> None:
        while (payload := self.transport.receive()) is not None:
            self.take(payload[0], FieldReader(payload, 1))

    def take(self, kind: int, fields: FieldReader) -> None:
        if kind == SERVICE_REQUEST:
            self.offer_service(fields.read_string())
        elif kind == USERAUTH_REQUEST:
            self.admit(fields.read_text(), fields.read_string(), fields.read_string())
        elif self.link is None:
            raise SshError("the client opened a channel before it signed in")
        elif kind == GLOBAL_REQUEST:
            self.refuse_global(fields.read_string(), fields.read_boolean())
        elif kind == messages.OPEN:
            self.open_channel(fields)
        elif messages.OPEN < kind <= messages.FAILURE:
            self.pass_on(kind, fields)
        else:
            self.transport.refuse()

    def offer_service(self, name: bytes) -> None:
        if name != b"ssh-userauth":
            raise SshError(f"the client requests the unknown service {name[:40]!r}")
        self.transport.send(bytes((SERVICE_ACCEPT,)) + encode_string(name))

    def admit(self, user: str, service: bytes, method: bytes) -> None:
        """Sign the client in without a password: anyone who could start this process may use the desk."""
        if self.link is not None:
            return  # RFC 4252: after a success further requests are ignored
        try:
            if user not in USERS:
                raise SshError(
                    f"a desk has no user {make_printable(user[:40])!r}; sign in as `user`, or as `root` if allowed"
                )
            if service != b"ssh-connection":
                raise SshError(f"the client requests the unknown service {service[:40]!r}")
            self.link = self.owner.link(user)
        except HotdeskError as e:
            self.refuse_user(str(e))
        else:
            self.transport.send(bytes((USERAUTH_SUCCESS,)))

    def refuse_user(self, why: str) -> None:
        self.refusals += 1
        if self.refusals == 1:
            self.tell(why)
        if self.refusals > MAX_REFUSALS:
            raise SshError("too many sign-in attempts")
        self.transport.send(bytes((USERAUTH_FAILURE,)) + encode_names((b"none",)) + b"\0")

    def refuse_global(self, name: bytes, wants_reply: bool) -> None:
        """Refuse a request of the connection, usually for remote forwarding."""
        if name in (b"tcpip-forward", b"streamlocal-forward@openssh.com"):
            self.tell(NO_REMOTE)
        if wants_reply:
            self.transport.send(bytes((REQUEST_FAILURE,)))

    # -- channels --------------------------------------------------------------------------------------------------

    def open_channel(self, fields: FieldReader) -> None:
        kind, remote = fields.read_string(), fields.read_uint32()
        opening = (remote, fields.read_uint32(), fields.read_uint32())
        if len(self.channels) >= MAX_CHANNELS:
            self.fail(remote, RESOURCE_SHORTAGE, f"too many channels; the limit is {MAX_CHANNELS}")
        elif kind == b"session":
            self.open_session(opening)
        elif kind == b"direct-tcpip":
            self.open_forwarding(opening, fields.read_text(), fields.read_uint32())
        elif kind == b"direct-streamlocal@openssh.com":
            self.fail(remote, PROHIBITED, NO_SOCKETS)
        else:
            self.fail(remote, UNKNOWN_TYPE, "not supported")

    def open_session(self, opening: tuple[int, int, int]) -> None:
        assert self.link is not None
        session = Session(self.transport, self.allocate_number(), opening, self.link, self.tell)
        self.channels[session.local] = session
        session.confirm()

    def open_forwarding(self, opening: tuple[int, int, int], host: str, port: int) -> None:
        """Open a channel to a port in the desk; other destinations are refused."""
        desk = self.owner.desk
        if host.lower() not in LOOPBACK | {desk, desk + DESK_SUFFIX}:
            name = make_printable(host[:80])
            why = f"{name} is not in the desk; only ports of localhost can be forwarded"
            self.fail(opening[0], PROHIBITED, why)
            return
        if port == GATE_PORT:
            self.fail(
                opening[0], PROHIBITED, f"port {port} is reserved for the desk's egress proxy and cannot be forwarded"
            )
            return
        try:
            sock, request = self.owner.call(f"dial/{port}")
        except HotdeskError as e:
            self.fail(opening[0], messages.CONNECT_FAILED, make_printable(str(e)))
            return
        stream = PortForwarding(self.transport, self.allocate_number(), opening, sock, request)
        self.channels[stream.local] = stream
        stream.flush()

    def fail(self, remote: int, code: int, why: str) -> None:
        self.transport.send(fail_opening(remote, code, why))

    def allocate_number(self) -> int:
        self.last += 1
        return self.last

    def pass_on(self, kind: int, fields: FieldReader) -> None:
        channel = self.channels.get(fields.read_uint32())
        if channel is None:
            raise SshError("the client used a channel that is not open")
        channel.take(kind, fields)

    def pump(self) -> None:
        for channel in list(self.channels.values()):
            channel.pump()
            if channel.is_over:
                channel.leave()
                del self.channels[channel.local]

    def leave(self) -> None:
        for channel in self.channels.values():
            channel.leave()
        self.channels.clear()
