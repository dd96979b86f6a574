"""An SFTP server (version 3) on standard input and output; runs in a desk, as its user, for `hotdesk ssh`.

One file that needs only the standard library. It ends when its input ends. Its replies are not trusted outside.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Reply = tuple[int, bytes]
    Attributes = dict[int, tuple[int, ...]]

INIT, VERSION, OPEN, CLOSE, READ, WRITE, LSTAT, FSTAT, SETSTAT, FSETSTAT, OPENDIR, READDIR = range(1, 13)
REMOVE, MKDIR, RMDIR, REALPATH, STAT, RENAME, READLINK, SYMLINK = range(13, 21)
STATUS, HANDLE, DATA, NAME, ATTRS = range(101, 106)
EXTENDED = 200
OK, END, NO_SUCH_FILE, PERMISSION_DENIED, FAILURE, BAD_MESSAGE, UNSUPPORTED = 0, 1, 2, 3, 4, 5, 8
SIZE, OWNER, PERMISSIONS, TIMES = 1, 2, 4, 8
FOR_READING, FOR_WRITING = 1, 2
FLAGS = ((4, os.O_APPEND), (8, os.O_CREAT), (16, os.O_TRUNC), (32, os.O_EXCL))
CODES = {errno.ENOENT: NO_SUCH_FILE, errno.ENOTDIR: NO_SUCH_FILE, errno.EACCES: PERMISSION_DENIED,
         errno.EPERM: PERMISSION_DENIED}  # fmt: skip
MAX_READ = 131072
MAX_HANDLES = 1024
BATCH = 100
MAX_BATCH_BYTES = 32768
MAX_MESSAGE_BYTES = 1 << 18


class Fields:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.data):
            raise ValueError("the SFTP message is truncated")
        return self.data[self.at - size : self.at]

    def read_number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def read_string(self) -> bytes:
        return self.take(self.read_number())

    def read_path(self) -> bytes:
        """Read a path; an empty one is the working directory."""
        return self.read_string() or b"."

    def read_attributes(self) -> Attributes:
        flags = self.read_number()
        found: Attributes = {}
        if flags & SIZE:
            found[SIZE] = (self.read_number(8),)
        for flag, count in ((OWNER, 2), (PERMISSIONS, 1), (TIMES, 2)):
            if flags & flag:
                found[flag] = tuple(self.read_number() for _ in range(count))
        return found


def _encode_number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "big")


def encode_string(data: bytes) -> bytes:
    return _encode_number(len(data)) + data


def describe(info: os.stat_result) -> bytes:
    times = [min(max(0, int(each)), 0xFFFFFFFF) for each in (info.st_atime, info.st_mtime)]
    facts = [info.st_uid, info.st_gid, info.st_mode, *times]
    return (
        _encode_number(SIZE | OWNER | PERMISSIONS | TIMES)
        + _encode_number(info.st_size, 8)
        + b"".join(map(_encode_number, facts))
    )


def make_folder(fields: Fields) -> None:
    path, attributes = fields.read_path(), fields.read_attributes()
    os.mkdir(path, attributes.get(PERMISSIONS, (0o777,))[0] & 0o7777)


def change(target: bytes | int, attributes: Attributes, follow: bool = True) -> None:
    if SIZE in attributes:
        os.truncate(target, attributes[SIZE][0])
    if PERMISSIONS in attributes and follow:
        os.chmod(target, attributes[PERMISSIONS][0] & 0o7777)
    if TIMES in attributes:
        accessed, modified = attributes[TIMES]
        os.utime(target, (accessed, modified), follow_symlinks=follow)
    if OWNER in attributes:
        owner, group = attributes[OWNER]
        os.chown(target, owner, group, follow_symlinks=follow)


def _name_path(path: bytes) -> Reply:
    return NAME, _encode_number(1) + encode_string(path) + encode_string(path) + _encode_number(0)


def write_status(code: int, text: str = "") -> Reply:
    return STATUS, _encode_number(code) + encode_string(text.encode("utf-8", "replace")) + encode_string(b"")


class Server:
    """One session: its open files and folders."""

    def __init__(self) -> None:
        self.files: dict[bytes, int] = {}
        self.folders: dict[bytes, tuple[bytes, Iterator[bytes]]] = {}
        self.last = 0
        self.calls: dict[int, Callable[[Fields], Reply | None]] = {
            OPEN: self.open, CLOSE: self.close, READ: self.read, WRITE: self.write, OPENDIR: self.open_folder,
            READDIR: self.list_folder, RENAME: self.rename, SYMLINK: self.link, EXTENDED: self.extend,
            STAT: lambda fields: (ATTRS, describe(os.stat(fields.read_path()))),
            LSTAT: lambda fields: (ATTRS, describe(os.lstat(fields.read_path()))),
            FSTAT: lambda fields: (ATTRS, describe(os.fstat(self.find(fields)))),
            SETSTAT: lambda fields: change(fields.read_path(), fields.read_attributes()),
            FSETSTAT: lambda fields: change(self.find(fields), fields.read_attributes()),
            REMOVE: lambda fields: os.unlink(fields.read_path()),
            MKDIR: make_folder,
            RMDIR: lambda fields: os.rmdir(fields.read_path()),
            REALPATH: lambda fields: _name_path(os.path.realpath(fields.read_path())),
            READLINK: lambda fields: _name_path(os.readlink(fields.read_path())),
        }  # fmt: skip

    def make_handle(self) -> bytes:
        if len(self.files) + len(self.folders) >= MAX_HANDLES:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self.last += 1
        return b"%d" % self.last

    def find(self, fields: Fields) -> int:
        fd = self.files.get(fields.read_string())
        if fd is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return fd

    def open(self, fields: Fields) -> Reply:
        """Open a regular file without waiting for special files."""
        path, access, attributes = fields.read_path(), fields.read_number(), fields.read_attributes()
        handle = self.make_handle()
        flags = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        if access & FOR_WRITING:
            flags |= os.O_RDWR if access & FOR_READING else os.O_WRONLY
        for bit, flag in FLAGS:
            flags |= flag if access & bit else 0
        fd = os.open(path, flags, attributes.get(PERMISSIONS, (0o666,))[0] & 0o7777)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file")
        self.files[handle] = fd
        return HANDLE, encode_string(handle)

    def close(self, fields: Fields) -> None:
        handle = fields.read_string()
        if self.folders.pop(handle, None) is None:
            os.close(self.find(Fields(encode_string(handle), 0)))
            del self.files[handle]

    def read(self, fields: Fields) -> Reply:
        fd, offset, length = self.find(fields), fields.read_number(8), fields.read_number()
        data = os.pread(fd, min(length, MAX_READ), offset)
        return (DATA, encode_string(data)) if data or not length else write_status(END)

    def write(self, fields: Fields) -> None:
        fd, offset, data = self.find(fields), fields.read_number(8), fields.read_string()
        while data:
            count = os.pwrite(fd, data, offset)
            data, offset = data[count:], offset + count

    def open_folder(self, fields: Fields) -> Reply:
        path, handle = fields.read_path(), self.make_handle()
        self.folders[handle] = path, iter([b".", b"..", *sorted(os.listdir(path))])
        return HANDLE, encode_string(handle)

    def list_folder(self, fields: Fields) -> Reply:
        if (value := self.folders.get(fields.read_string())) is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        path, names = value
        found: list[bytes] = []
        for name in names:
            try:
                found.append(encode_string(name) + encode_string(b"") + describe(os.lstat(os.path.join(path, name))))
            except OSError:
                continue  # deleted meanwhile
            if len(found) >= BATCH or sum(map(len, found)) >= MAX_BATCH_BYTES:
                break
        return (NAME, _encode_number(len(found)) + b"".join(found)) if found else write_status(END)

    def rename(self, fields: Fields) -> None:
        source, target = fields.read_path(), fields.read_path()
        if os.path.lexists(target):
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        os.rename(source, target)

    def link(self, fields: Fields) -> None:
        """Create a symbolic link; OpenSSH sends the target first."""
        target, path = fields.read_path(), fields.read_path()
        os.symlink(target, path)

    def extend(self, fields: Fields) -> Reply | None:
        name = fields.read_string()
        if name == b"posix-rename@openssh.com":
            os.rename(fields.read_path(), fields.read_path())
        elif name == b"hardlink@openssh.com":
            os.link(fields.read_path(), fields.read_path())
        elif name == b"fsync@openssh.com":
            os.fsync(self.find(fields))
        elif name == b"lsetstat@openssh.com":
            change(fields.read_path(), fields.read_attributes(), follow=False)
        elif name == b"expand-path@openssh.com":
            return _name_path(os.path.realpath(os.path.expanduser(fields.read_path())))
        else:
            return write_status(UNSUPPORTED)
        return None

    def write_reply(self, message: bytes) -> bytes:
        kind, number_of_request = message[0], message[1:5]
        if kind == INIT:
            return bytes((VERSION,)) + _encode_number(3)
        try:
            call = self.calls.get(kind)
            done = write_status(UNSUPPORTED) if call is None else call(Fields(message, 5))
            answer, body = done or write_status(OK)
        except OSError as e:
            answer, body = write_status(CODES.get(e.errno or 0, FAILURE), e.strerror or str(e))
        except (ValueError, OverflowError) as e:
            answer, body = write_status(BAD_MESSAGE, str(e))
        return bytes((answer,)) + number_of_request + body


def main() -> None:
    """Answer requests until the input ends."""
    server, incoming, outgoing = Server(), sys.stdin.buffer, sys.stdout.buffer
    while len(head := incoming.read(4)) == 4:
        size = int.from_bytes(head, "big")
        message = incoming.read(size) if 0 < size <= MAX_MESSAGE_BYTES else b""
        if not message or len(message) != size:
            return
        outgoing.write(encode_string(server.write_reply(message)))
        outgoing.flush()


if __name__ == "__main__":
    main()
