"""A program at a desk as an SSH session: a shell, a command, or the SFTP server."""

from __future__ import annotations

from collections import deque

from hotdesk.cli.ssh.channel import REQUEST, SshChannel
from hotdesk.cli.ssh.fields import FieldReader, encode_string, encode_uint32
from hotdesk.cli.ssh.sftp_replies import SftpError, SftpReplies
from hotdesk.desk.login_shell import LOGIN_SHELL
from hotdesk.errors import LinkError, make_printable
from hotdesk_guest import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotdesk.cli.ssh.desk_link import DeskLink, ProgramChannel
    from hotdesk.cli.ssh.transport import Transport

COMMAND = ["/bin/sh", "-c", '[ -x /bin/bash ] && exec /bin/bash -c "$1"; exec /bin/sh -c "$1"', "sh"]
SFTP = ["python3", "-I", "-S", "-B", "-c"]
_SFTP_PROGRAM = "sftp_server.py"
MAX_VARIABLES = 128
SIGNALS = {b"HUP": 1, b"INT": 2, b"QUIT": 3, b"ABRT": 6, b"KILL": 9, b"USR1": 10, b"USR2": 12, b"PIPE": 13,
           b"ALRM": 14, b"TERM": 15}  # fmt: skip
HANGUP = 1
MAX_SIZE = 1 << 16
FAILED = 255
"""Exit code of a session that hotdesk ended, as for failures of `ssh` itself."""
REFUSED = {
    b"auth-agent-req@openssh.com": "agent forwarding is refused: a desk must not use your keys",
    b"x11-req": "X11 forwarding is refused: a desk must not see your screen; `hotdesk watch` shows the desk's screen",
}


class Session(SshChannel):
    """One program with its streams."""

    def __init__(
        self,
        transport: Transport,
        local: int,
        opening: tuple[int, int, int],
        link: DeskLink,
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(transport, local, *opening)
        self.link = link
        self.tell = tell
        """Shows a message of hotdesk's own to the person."""
        self.variables: dict[str, str] = {}
        self.size: list[int] | None = None
        """Rows and columns of the terminal, or `None` without one."""
        self.program: ProgramChannel | None = None
        self.replies: SftpReplies | None = None
        """Checks the replies of a desk's SFTP server, if that is the program."""
        self.waiting: deque[tuple[int, bytes, int]] = deque()
        """Output of the program: stream, bytes, and the cost to return once they were sent."""
        self.code: int | None = None
        """Exit code of the program, or `None` while it runs."""

    # -- requests of the client ------------------------------------------------------------------------------------

    def take_request(self, name: bytes, fields: FieldReader) -> bool:
        if name in REFUSED:
            self.tell(REFUSED[name])
            return False
        if name == b"signal" and self.program is not None and (number := SIGNALS.get(fields.read_string())):
            self.program.order({"signal": number, "tree": False})
        elif name == b"window-change":
            columns, rows = fields.read_uint32(), fields.read_uint32()
            if self.program is not None and self.size is not None and _is_size(rows, columns):
                self.program.order({"size": [rows, columns]})
        elif self.program is not None or self.code is not None:
            return False  # a session has one program
        elif name == b"env":
            return self.set_variable(fields.read_text(), fields.read_text())
        elif name == b"pty-req":
            self.variables["TERM"] = fields.read_text().partition("\0")[0] or "dumb"
            columns, rows = fields.read_uint32(), fields.read_uint32()
            self.size = [rows, columns] if _is_size(rows, columns) else [24, 80]
        elif name == b"shell":
            self.start(LOGIN_SHELL)
        elif name == b"exec":
            self.start([*COMMAND, fields.read_text()])
        elif name == b"subsystem" and fields.read_string() == b"sftp":
            self.replies = SftpReplies(self.tell)
            self.size = None
            self.start([*SFTP, _read_program()])
        else:
            return False
        return True

    def set_variable(self, name: str, value: str) -> bool:
        if not name or len(self.variables) >= MAX_VARIABLES or "=" in name or "\0" in name + value:
            return False
        self.variables[name] = value
        return True

    def start(self, argv: list[str]) -> None:
        """Start a program; one that cannot start is reported as a failed program."""
        ask: dict[str, object] = {"argv": argv}
        if self.variables:
            ask["env"] = self.variables
        if self.size is not None:
            ask["pty"] = self.size
        try:
            if "\0" in argv[-1]:
                raise LinkError("a command must not contain a NUL byte")
            self.program = self.link.start(self, ask)
            if self.got_eof:
                self.program.end()
        except LinkError as e:
            self.take_end(FAILED, str(e))

    def take_data(self, data: bytes) -> None:
        if self.program is None:
            self.admit(len(data))
            return
        if self.replies is not None:
            self.replies.note_requests(data)
        self.program.send(data)

    def take_eof(self) -> None:
        if self.program is not None:
            self.program.end()

    def leave(self) -> None:
        """Stop following the program: it gets SIGHUP, and may continue."""
        self.waiting.clear()
        if self.program is not None:
            if self.code is None:
                self.program.order({"signal": HANGUP, "tree": False})
            self.program.drop()
            self.program = None

    # -- data from the desk ----------------------------------------------------------------------------------------

    def take_output(self, stream: int, data: bytes, cost: int) -> None:
        """Queue output of the program until the client accepts it."""
        if self.replies is not None:
            try:
                data = b"" if stream == wire.STDERR else self.replies.check(data)
            except SftpError as e:
                self.abort(f"the desk's SFTP server broke the protocol: {e}; burn the desk and open another")
                return
        self.waiting.append((stream, data, cost))

    def take_room(self, count: int) -> None:
        self.admit(count)

    def take_end(self, code: int, text: str) -> None:
        """Record the exit code; a text is the desk's words, and shown as such."""
        self.code = code
        if text:
            self.waiting.append((wire.STDERR, f"hotdesk: {make_printable(text)}\r\n".encode(), 0))
        self.pump()

    def abort(self, why: str) -> None:
        self.tell(why)
        if self.program is not None:
            self.program.order({"signal": 9, "tree": True})
        self.leave()
        self.take_end(FAILED, "")

    def pump(self) -> None:
        """Send queued output, as far as the client accepts it, and then the exit code."""
        while self.waiting and not self.sent_close:
            stream, data, cost = self.waiting.popleft()
            while data and (room := self.measure_room()):
                self.send_data(data[:room], is_error=stream == wire.STDERR)
                data = data[room:]
            if data:
                self.waiting.appendleft((stream, data, cost))
                return
            if self.program is not None:
                self.program.give_back(cost)
        if self.code is not None and not self.sent_close:
            self.send_eof()
            self.send(REQUEST, encode_string(b"exit-status") + b"\0" + encode_uint32(self.code))
            self.close()


def _is_size(rows: int, columns: int) -> bool:
    return 0 < rows < MAX_SIZE and 0 < columns < MAX_SIZE


def _read_program() -> str:
    folder = __file__.rpartition("/")[0]
    with open(f"{folder}/inside/{_SFTP_PROGRAM}", encoding="utf-8") as file:
        return file.read()
