"""System calls of a virtual machine's first process that Python does not have, and its files."""

from __future__ import annotations

import _socket
import ctypes
import fcntl
import posix
import resource
import sys

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOATIME, MS_BIND = 2, 4, 8, 1024, 4096
MNT_DETACH = 2
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, posix.strerror(number)))
    return result


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    texts = [text.encode() if text else None for text in (source, target, kind, data)]
    check(libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]), "mount %s" % target)


def prctl(option: int, value: int) -> int:
    return int(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def unmount(target: str) -> None:
    """Detach a mount; what has its files open keeps it."""
    check(libc.umount2(target.encode(), MNT_DETACH), "umount %s" % target)


def change_root(folder: str) -> None:
    posix.chdir(folder)
    check(libc.syscall(SYS_PIVOT_ROOT[posix.uname().machine], b".", b"."), "pivot_root")
    unmount(".")
    posix.chdir("/")


def make_folder(path: str, mode: int = 0o755) -> None:
    above = path.rpartition("/")[0]
    if above:
        try:
            posix.stat(above)
        except FileNotFoundError:
            make_folder(above)
    try:
        posix.mkdir(path, mode)
    except FileExistsError:
        pass


def write_file(path: str, data: bytes, mode: int = 0o644) -> None:
    make_folder(path.rpartition("/")[0])
    try:
        posix.unlink(path)
    except FileNotFoundError:
        pass
    fd = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC, mode)
    while data:
        data = data[posix.write(fd, data) :]
    posix.close(fd)


def read_text(path: str) -> str:
    """Read a small file; return an empty text if there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(4096).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def tell_kernel(path: str, text: str) -> None:
    fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        posix.write(fd, text.encode())
    finally:
        posix.close(fd)


def raise_loopback() -> None:
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    request = b"lo".ljust(16, b"\0") + bytes(24)
    flags = int.from_bytes(fcntl.ioctl(sock.fileno(), SIOCGIFFLAGS, request)[16:18], sys.byteorder)
    fcntl.ioctl(sock.fileno(), SIOCSIFFLAGS, request[:16] + (flags | IFF_UP).to_bytes(2, sys.byteorder) + bytes(22))
    sock.close()


def reseed_kernel(random: bytes) -> None:
    """Reseed the kernel's random generator, so that machines of one template differ."""
    fd = posix.open("/dev/urandom", posix.O_RDWR | posix.O_CLOEXEC)
    head = (8 * len(random)).to_bytes(4, sys.byteorder) + len(random).to_bytes(4, sys.byteorder)
    fcntl.ioctl(fd, RNDADDENTROPY, head + random)
    fcntl.ioctl(fd, RNDRESEEDCRNG)
    posix.close(fd)


def close_others(spared: int) -> None:
    """Close every descriptor except the standard streams and one more."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    posix.closerange(3, spared)
    posix.closerange(max(3, spared + 1), most)


def limit(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
