"""Checks the replies of a desk's SFTP server before an SFTP client reads them (version 3, draft-ietf-secsh-
filexfer-02).

A client trusts its server: names in replies decide where a local file is written. So every reply must be valid for its
request; names that could leave a folder or control a terminal are left out, and attributes are encoded again.
"""

from __future__ import annotations

import time

from hotdesk.cli.ssh.fields import FieldReader, SshError, encode_string, encode_uint32
from hotdesk.errors import make_printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INIT, VERSION, OPEN, CLOSE, READ, WRITE, LSTAT, FSTAT, SETSTAT, FSETSTAT, OPENDIR, READDIR = range(1, 13)
REMOVE, MKDIR, RMDIR, REALPATH, STAT, RENAME, READLINK, SYMLINK = range(13, 21)
STATUS, HANDLE, DATA, NAME, ATTRS = range(101, 106)
EXTENDED = 200
EXPAND_PATH = b"expand-path@openssh.com"
EXTENSIONS = (
    (b"posix-rename@openssh.com", b"1"),
    (b"hardlink@openssh.com", b"1"),
    (b"fsync@openssh.com", b"1"),
    (b"lsetstat@openssh.com", b"1"),
    (EXPAND_PATH, b"1"),
)
"""Extensions that `inside/sftp_server.py` supports; a desk cannot announce others."""
ANSWERS = {OPEN: HANDLE, OPENDIR: HANDLE, READ: DATA, READDIR: NAME, REALPATH: NAME, READLINK: NAME, STAT: ATTRS,
           LSTAT: ATTRS, FSTAT: ATTRS}  # fmt: skip
"""Allowed type of reply to each request, besides a status."""
FAILURE = 4
MAX_STATUS = 8
MAX_MESSAGE_BYTES = 1 << 18
"""Maximum bytes of a message of OpenSSH's client."""
MAX_HANDLE_BYTES = 256
MAX_NAMES = 256
"""Maximum names in one reply."""
MAX_ENTRIES = 200_000
"""Maximum names of one folder."""
MAX_FILE_BYTES = 16 << 30
"""Maximum bytes that are read of one file."""
MAX_OUTSTANDING = 4096
MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 4096
MAX_TOLD = 20
"""Maximum left-out names that are reported to the person, per session."""
SIZE, OWNER, PERMISSIONS, TIMES = 1, 2, 4, 8
KINDS = {0o040000: "d", 0o100000: "-", 0o120000: "l"}
FOLDER: dict[int, tuple[int, ...]] = {PERMISSIONS: (0o040755,)}
"""Replaces a batch of names that were all left out: OpenSSH's client takes an empty one for the end."""
SPECIAL = 0o020000
"""Type that replaces all other file types: a character device, which no client opens by itself."""


class SftpError(Exception):
    """The desk's SFTP server sent an invalid reply."""


class SftpRequest:
    """A pending request of a client."""

    def __init__(self, kind: int, subject: bytes = b"", offset: int = 0, length: int = 0) -> None:
        self.kind = kind
        self.subject = subject
        """A handle, or the name of an extension."""
        self.offset, self.length = offset, length

    def answer(self) -> int:
        if self.kind == EXTENDED:
            return NAME if self.subject == EXPAND_PATH else STATUS
        return ANSWERS.get(self.kind, STATUS)


class SftpReplies:
    """The replies of one SFTP session."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.requests: dict[int, SftpRequest] = {}
        self.is_greeted = self.awaits_version = False
        self.asking = bytearray()
        self.answering = bytearray()
        self.entries: dict[bytes, int] = {}
        """Number of names received so far, by the handle of their folder."""
        self.left_out = 0

    def note_requests(self, data: bytes) -> None:
        self.asking += data
        while (message := _take_message(self.asking)) is not None:
            fields = FieldReader(message)
            kind = fields.read_byte()
            if kind == INIT:
                self.awaits_version = True
                continue
            number = fields.read_uint32()
            if len(self.requests) >= MAX_OUTSTANDING:
                raise SshError(f"the SFTP client sent more than {MAX_OUTSTANDING} requests without waiting for replies")
            self.requests[number] = read_request(kind, fields)

    def check(self, data: bytes) -> bytes:
        """Check data from the desk; return what the client may read."""
        self.answering += data
        checked = bytearray()
        try:
            while (message := _take_message(self.answering)) is not None:
                checked += encode_string(self.check_message(message))
        except SshError as e:
            raise SftpError(str(e)) from None
        return bytes(checked)

    def check_message(self, message: bytes) -> bytes:
        fields = FieldReader(message)
        kind = fields.read_byte()
        if kind == VERSION and self.awaits_version:
            self.awaits_version = False
            self.is_greeted = True
            return (
                bytes((VERSION,))
                + encode_uint32(3)
                + b"".join(encode_string(a) + encode_string(b) for a, b in EXTENSIONS)
            )
        number = fields.read_uint32()
        request = self.requests.pop(number, None)
        if request is None or not self.is_greeted:
            raise SftpError("a reply without a request")
        if request.kind == CLOSE:
            self.entries.pop(request.subject, None)
        if kind not in (STATUS, request.answer()):
            raise SftpError(f"a reply of type {kind} to a request of type {request.kind}")
        body = self.check_body(kind, request, fields)
        fields.end()
        if body is None:
            return write_status(number, FAILURE, "left out by hotdesk, which printed the reason")
        return bytes((kind,)) + encode_uint32(number) + body

    def check_body(self, kind: int, request: SftpRequest, fields: FieldReader) -> bytes | None:
        """Check the body of a reply; return `None` if the client must not get it."""
        if kind == STATUS:
            code = fields.read_uint32()
            text = fields.read_text() if fields.at < len(fields.data) else ""
            fields.at = len(fields.data)
            return (
                encode_uint32(min(code, MAX_STATUS))
                + encode_string(make_printable(text[:300]).encode())
                + encode_string(b"")
            )
        if kind == HANDLE:
            handle = fields.read_string()
            if len(handle) > MAX_HANDLE_BYTES:
                raise SftpError(f"a file handle has {len(handle)} bytes; the limit is {MAX_HANDLE_BYTES}")
            return encode_string(handle)
        if kind == DATA:
            data = fields.read_string()
            if len(data) > request.length:
                raise SftpError(f"a reply has {len(data)} bytes, and {request.length} were requested")
            if request.offset + len(data) > MAX_FILE_BYTES:
                self.tell(f"a file was truncated at {MAX_FILE_BYTES >> 30} GiB, the limit of a copy")
                return None
            return encode_string(data)
        if kind == ATTRS:
            return _write_attributes(read_attributes(fields))
        return self.check_names(request, fields)

    def check_names(self, request: SftpRequest, fields: FieldReader) -> bytes | None:
        """Check a list of names: the entries of a folder, or one path."""
        count = fields.read_uint32()
        if count > MAX_NAMES:
            raise SftpError(f"a reply has {count} names; the limit is {MAX_NAMES}")
        found = []
        for _ in range(count):
            name, _, attributes = fields.read_string(), fields.read_string(), read_attributes(fields)
            found.append((name, attributes))
        if request.kind != READDIR:
            if len(found) != 1 or not _is_path(found[0][0], absolute=request.kind != READLINK):
                self.leave_out(found[0][0] if found else b"")
                return None
            return encode_uint32(1) + encode_string(found[0][0]) + encode_string(found[0][0]) + encode_uint32(0)
        total = self.entries[request.subject] = self.entries.get(request.subject, 0) + max(1, count)
        if total > MAX_ENTRIES:
            self.tell(f"the listing of a folder was truncated at {MAX_ENTRIES} entries")
            return None
        admitted = [(name, attributes) for name, attributes in found if self.admit(name)] or [(b".", FOLDER)]
        return encode_uint32(len(admitted)) + b"".join(_write_entry(name, attributes) for name, attributes in admitted)

    def admit(self, name: bytes) -> bool:
        """Return whether a name is safe to use on this machine; report a refused one."""
        if _is_name(name):
            return True
        self.leave_out(name)
        return False

    def leave_out(self, name: bytes) -> None:
        self.left_out += 1
        if self.left_out <= MAX_TOLD:
            shown = make_printable(name[:MAX_NAME_BYTES].decode("utf-8", "surrogateescape"))
            self.tell(f"left out {shown}: its name is not safe to use on this machine")
        elif self.left_out == MAX_TOLD + 1:
            self.tell("left out more names that are not safe to use on this machine")


def _take_message(buffer: bytearray) -> bytes | None:
    """Return the next message, or `None` until it is complete."""
    if len(buffer) < 4:
        return None
    length = int.from_bytes(buffer[:4], "big")
    if not 1 <= length <= MAX_MESSAGE_BYTES:
        raise SshError(f"an SFTP message must have 1 to {MAX_MESSAGE_BYTES} bytes, not {length}")
    if len(buffer) < 4 + length:
        return None
    message = bytes(buffer[4 : 4 + length])
    del buffer[: 4 + length]
    return message


def read_request(kind: int, fields: FieldReader) -> SftpRequest:
    if kind in (CLOSE, READDIR, EXTENDED):
        return SftpRequest(kind, fields.read_string())
    if kind == READ:
        return SftpRequest(kind, fields.read_string(), fields.read_uint64(), fields.read_uint32())
    return SftpRequest(kind)


def _is_name(name: bytes) -> bool:
    """Return whether a name is safe as a file name: one component of printable characters."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return False
    return 0 < len(name) <= MAX_NAME_BYTES and "/" not in text and text.isprintable()


def _is_path(path: bytes, *, absolute: bool) -> bool:
    try:
        text = path.decode()
    except UnicodeDecodeError:
        return False
    return 0 < len(path) <= MAX_PATH_BYTES and text.isprintable() and (text.startswith("/") or not absolute)


def read_attributes(fields: FieldReader) -> dict[int, tuple[int, ...]]:
    """Read the attributes of a file, by their flags; refuse unknown ones."""
    flags = fields.read_uint32()
    if flags & ~(SIZE | OWNER | PERMISSIONS | TIMES):
        raise SftpError(f"a reply has unknown file attributes: flags {flags:#x}")
    found: dict[int, tuple[int, ...]] = {}
    if flags & SIZE:
        found[SIZE] = (fields.read_uint64(),)
    for flag, count in ((OWNER, 2), (PERMISSIONS, 1), (TIMES, 2)):
        if flags & flag:
            found[flag] = tuple(fields.read_uint32() for _ in range(count))
    return found


def _write_attributes(found: dict[int, tuple[int, ...]]) -> bytes:
    """Encode attributes; a mode keeps only its type and its read, write and execute bits."""
    written = encode_uint32(sum(found))
    if SIZE in found:
        written += min(found[SIZE][0], (1 << 63) - 1).to_bytes(8, "big")
    if OWNER in found:
        written += encode_uint32(found[OWNER][0]) + encode_uint32(found[OWNER][1])
    if PERMISSIONS in found:
        written += encode_uint32(_clean_mode(found[PERMISSIONS][0]))
    if TIMES in found:
        written += encode_uint32(found[TIMES][0]) + encode_uint32(found[TIMES][1])
    return written


def _clean_mode(mode: int) -> int:
    """Return a mode without set-id and sticky bits; types other than file, folder and link become `SPECIAL`."""
    kind = mode & 0o170000
    return (kind if kind in KINDS else SPECIAL) | mode & 0o777


def _write_entry(name: bytes, attributes: dict[int, tuple[int, ...]]) -> bytes:
    """Encode one entry of a folder, with the line that a client's `ls -l` shows."""
    mode = _clean_mode(attributes.get(PERMISSIONS, (0o100000,))[0])
    letters = KINDS.get(mode & 0o170000, "c")
    letters += "".join(letter if mode >> 8 - at & 1 else "-" for at, letter in enumerate("rwxrwxrwx"))
    owner, group = attributes.get(OWNER, (0, 0))
    size = min(attributes.get(SIZE, (0,))[0], (1 << 63) - 1)
    modified = time.strftime("%b %d %Y %H:%M", time.gmtime(attributes.get(TIMES, (0, 0))[1]))
    line = f"{letters} 1 {owner:<8} {group:<8} {size:>8} {modified} ".encode() + name
    return encode_string(name) + encode_string(line) + _write_attributes(attributes)


def write_status(number: int, code: int, text: str) -> bytes:
    return (
        bytes((STATUS,))
        + encode_uint32(number)
        + encode_uint32(code)
        + encode_string(text.encode())
        + encode_string(b"")
    )
