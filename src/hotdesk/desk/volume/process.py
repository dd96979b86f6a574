"""The process that reads and writes one volume for the content API, confined to that volume.

It is root of a user namespace without privileges outside, its root directory is the volume, it has four capabilities
for files, and no network. Each connection it receives is one request: a frame with the operation, frames with bytes for
an upload, then as the answer a frame with the status and frames with the body.
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from hotdesk.desk.volume.files import PIECE, Attributes, FilesError, Upload, VolumeFiles, compute_part, explain
from hotdesk.ipc.frames import FrameError, Frames, write
from hotdesk.linux import bpf, jail, landlock, rlimits, syscalls, uids, user_namespace

CONTROL = 3
"""The file descriptor over which the owner passes connections."""
_THREADS = 16
"""Requests carried out at a time; others wait."""
_LISTING = threading.Semaphore(2)
"""Listings made and sent at a time: making a large one needs a hundred MiB, which no desk's limit covers."""
_LISTING_LIMIT_S = 30.0
"""Seconds for which a listing is sent; then the connection is closed, as others wait for the memory."""
_STACK_BYTES = 1 << 20
_MEMORY = 4 << 30
"""Bytes of address space, much of which libc reserves for threads."""
_FILES = 1024 + _THREADS * 80
"""Maximum open descriptors: a listing has one open per level."""
_TIMEOUT_S = 60.0
"""Seconds without data after which a connection is closed."""
CAPABILITIES = {0, 1, 3, 4}
"""CHOWN, DAC_OVERRIDE, FOWNER and FSETID, in the user namespace of the volume's owners."""
_READS = 1 << 2 | 1 << 3
_WRITES = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | landlock.REFER | landlock.TRUNCATE
"""Write and truncate files, remove and create files and directories, move them; no devices, sockets, pipes or links."""
_ACTS = ("stat", "list", "mkdir", "change", "read", "write", "remove")


class VolumeRequest:
    """A request of the owner."""

    def __init__(self, sock: socket.socket, files: VolumeFiles) -> None:
        self.sock = sock
        self.files = files
        self.frames = Frames(max_blob_bytes=PIECE, max_items=64)
        self.waiting: list[tuple[dict[str, object], bytes]] = []
        self.listing_limit_s = _LISTING_LIMIT_S

    def run(self) -> None:
        """Carry out the request and answer it, or stop when the caller disconnects."""
        self.sock.settimeout(_TIMEOUT_S)
        try:
            self.answer(self.receive()[0])
        except FilesError as e:
            self.send_json(e.status, {"code": e.status, "message": str(e)})
        except (OSError, FrameError, EOFError):
            return  # the owner disconnected or sent garbage: an answer would reach no one

    def answer(self, request: Mapping[str, object]) -> None:
        act, path = request.get("act"), request.get("path")
        if act not in _ACTS or not isinstance(path, str):
            raise FilesError(400, f"unknown request {str(act)[:40]!r} to the volume's process")
        try:
            getattr(self, f"do_{act}")(path, request)
        except OSError as e:
            if isinstance(e, TimeoutError | ConnectionError):
                raise
            raise explain(e) from e

    def do_stat(self, path: str, _request: Mapping[str, object]) -> None:
        self.send_json(200, self.files.stat(path))

    def do_list(self, path: str, request: Mapping[str, object]) -> None:
        depth = _read_number(request, "depth") or 1
        with _LISTING:
            self.send_body(200, self.files.ls(path, depth), self.listing_limit_s)

    def do_mkdir(self, path: str, request: Mapping[str, object]) -> None:
        self.send_json(201, self.files.make_dir(path, _read_attributes(request), parents=request.get("force") is True))

    def do_change(self, path: str, request: Mapping[str, object]) -> None:
        self.send_json(200, self.files.change(path, _read_attributes(request)))

    def do_remove(self, path: str, _request: Mapping[str, object]) -> None:
        self.files.remove(path)
        self.send_body(204, b"")

    def do_read(self, path: str, request: Mapping[str, object]) -> None:
        """Send a file or a part. A growing file is sent up to its initial size; if it shrinks, the connection ends."""
        fd, whole = self.files.open_file(path)
        try:
            head = {"status": 200, "length": (size := whole)}
            if request.get("part") is True and whole:
                begin, end = compute_part(whole, _read_number(request, "first"), _read_number(request, "last"))
                os.lseek(fd, begin, os.SEEK_SET)
                head = {"status": 206, "length": (size := end - begin), "first": begin, "size": whole}
            self.sock.sendall(write(head))
            while size:
                data = os.read(fd, min(PIECE, size))
                if not data:
                    raise EOFError
                self.sock.sendall(write({}, data))
                size -= len(data)
        finally:
            os.close(fd)

    def do_write(self, path: str, request: Mapping[str, object]) -> None:
        """Receive a file; an incomplete upload leaves no file."""
        force = request.get("force")
        upload = Upload(
            self.files, path, _read_attributes(request), overwrite=force is not False, parents=force is True
        )
        try:
            for data in self.iterate_pieces():
                upload.write(data)
            self.send_json(201, upload.finish())
        finally:
            upload.close()

    def iterate_pieces(self) -> Iterator[bytes]:
        """Yield the bytes of an upload until its last frame."""
        while True:
            message, data = self.receive()
            if data:
                yield data
            if message.get("end") is True:
                return

    def receive(self) -> tuple[dict[str, object], bytes]:
        while not self.waiting:
            data = self.sock.recv(PIECE)
            if not data:
                raise EOFError
            self.waiting = self.frames.feed(data)
        return self.waiting.pop(0)

    def send_json(self, status: int, value: object) -> None:
        self.send_body(status, json.dumps(value, separators=(",", ":")).encode())

    def send_body(self, status: int, body: bytes | bytearray, limit_s: float = math.inf) -> None:
        end = time.monotonic() + limit_s
        self.sock.sendall(write({"status": status, "length": len(body)}))
        for start in range(0, len(body), PIECE):
            self.sock.settimeout(max(0.001, min(_TIMEOUT_S, end - time.monotonic())))
            self.sock.sendall(write({}, bytes(body[start : start + PIECE])))


def _read_number(request: Mapping[str, object], name: str) -> int | None:
    value = request.get(name)
    if value is not None and type(value) is not int:
        raise FilesError(400, f"{name} must be a whole number")
    return value


def _read_attributes(request: Mapping[str, object]) -> Attributes:
    return Attributes(_read_number(request, "uid"), _read_number(request, "gid"), _read_number(request, "mode"))


def serve(control: socket.socket, files: VolumeFiles, program: bytes, together: threading.Barrier) -> None:
    """Accept connections and carry out their requests until the owner is gone; runs in each thread.

    No thread starts before all have installed their seccomp filter.
    """
    jail.install(program)
    together.wait()
    while True:
        data, fds, _, _ = socket.recv_fds(control, 1, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return
        for fd in fds:
            with socket.socket(fileno=fd) as sock:
                try:
                    VolumeRequest(sock, files).run()
                except Exception:  # noqa: BLE001, S110 - outer boundary; the owner sees a closed connection
                    pass


def sweep(files: VolumeFiles, program: bytes, together: threading.Barrier) -> None:
    """Delete leftover directories; runs in a thread, as a desk may write to them faster than they are deleted."""
    jail.install(program)
    together.wait()
    while True:
        name, start = files.leftovers.get(), time.monotonic()
        files.sweep(name)
        time.sleep(time.monotonic() - start)  # at most half of a processor, whatever a desk does


def enter_private_mounts(source: str, at: str) -> None:
    """Make a volume the root directory, and become root of a user namespace without privileges outside."""
    parent = os.getppid()
    jail.preload()
    userns = user_namespace.make(uids.VOLUMES + uids.ANCHOR, uids.format_id_map(uids.VOLUMES))
    syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET)
    syscalls.mount_idmapped(source, at, userns, 0)
    syscalls.pivot_root(at)
    os.setgroups([])
    syscalls.setns(userns, syscalls.CLONE_NEWUSER)
    os.close(userns)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    landlock.drop_capabilities(CAPABILITIES)
    landlock.restrict([Path("/")], _WRITES | _READS, reads=landlock.READS)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Serve the owner at descriptor 3 until it disconnects."""
    settings = json.loads(sys.argv[3])
    control = socket.socket(fileno=CONTROL)
    control.set_inheritable(False)
    os.umask(0o077)
    rlimits.set_core_limit()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    enter_private_mounts(str(settings["source"]), str(settings["at"]))
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    files = VolumeFiles(*(os.open(name, flags) for name in ("/files", "/staging")))
    files.find_leftovers()
    program = bpf.build_program(platform.machine(), bpf.VOLUME, os.getpid())
    gc.freeze()
    threading.stack_size(_STACK_BYTES)
    together = threading.Barrier(_THREADS + 2)
    threads = [threading.Thread(target=serve, args=(control, files, program, together)) for _ in range(_THREADS)]
    for thread in (*threads, threading.Thread(target=sweep, args=(files, program, together))):
        thread.start()
    jail.install(program)
    together.wait()
    for thread in threads:
        thread.join()
    os._exit(0)
