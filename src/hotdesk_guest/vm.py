"""The first process of a microVM: sets up the computer, starts the guest in it, and carries its connections out.

The initial file system starts it from the image's layers, which are mounted read-only, and it warms up; then a template
of the machine is taken. The facts of one desk arrive afterwards over a virtio port as the first message, the seed:
randomness, time, names, files, variables. No code of the desk runs before that, and the desk's disk is not mounted.

It stays root, and outside the pid namespace of the desk's programs. Its end is the end of the machine.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from typing import Any

import _signal  # type: ignore[import-not-found]
import _socket
import errno
import posix
import select
import sys
import time
import zlib

from hotdesk_guest import agent, ports, process
from hotdesk_guest.freezer import PLACE, ProgramFreezer
from hotdesk_guest.kernel import (
    MS_BIND,
    MS_NOATIME,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    PR_CAPBSET_DROP,
    PR_SET_NO_NEW_PRIVS,
    change_root,
    check,
    close_others,
    libc,
    limit,
    make_folder,
    mount,
    prctl,
    raise_loopback,
    read_text,
    reseed_kernel,
    tell_kernel,
    unmount,
    write_file,
)
from hotdesk_guest.mux import HOST_LIMIT, Mux
from hotdesk_guest.wire import encode

FOLDER = "/run/hotdesk"
"""The folder with the guest's code and its sockets, before and after the desk's file system is mounted."""
NEW, DISK, LAYERS = "/run/new", "/run/disk", "/run/layers"
"""Where the desk's file system is assembled: its root, its writable disk, and the image's layers by number."""
DISK_SERIAL = "disk"
DRIVER = "/sys/bus/virtio/drivers/virtio_blk"
USER = 1000
SOCKETS = {"gate": (USER, 0o600), "sudo": (0, 0o666), "root": (0, 0o600)}
"""Sockets in `FOLDER` with owner and mode. A connection is carried to the socket of that name outside."""
BACKLOG = 256
PORT_TRIES, PORT_INTERVAL_S = 500, 0.01
PLAIN = MS_NOSUID | MS_NODEV
CLONE_NEWPID = 0x20000000
LAST_CAPABILITY = 63
POWER_OFF = 0x4321FEDC
OVERLAY = "index=off,metacopy=off,redirect_dir=nofollow,xino=off"
WARMING = (["/bin/sh", "-c", ":"], ["/bin/true"])
"""Commands run once before a template is taken, so that every desk has in memory what programs need."""
ROOT = {"HOME": "/root", "USER": "root", "LOGNAME": "root"}
LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
IDENTITY = "identity"
"""A file beside the writable layer: a checksum of the desk's own files. If it differs, they are written again."""


def _open_port(name: str) -> int:
    folder = "/sys/class/virtio-ports"
    for _ in range(PORT_TRIES):  # the kernel discovers its ports one by one
        for each in posix.listdir(folder):
            if read_text("%s/%s/name" % (folder, each)) == name:
                return posix.open("/dev/" + each, posix.O_RDWR | posix.O_NONBLOCK | posix.O_CLOEXEC)
        time.sleep(PORT_INTERVAL_S)
    raise OSError(errno.ENODEV, "the virtio port %s does not exist" % name)


def _find_disk() -> str:
    for each in posix.listdir("/sys/block"):
        if read_text("/sys/block/%s/serial" % each) == DISK_SERIAL:
            return each
    raise OSError(errno.ENODEV, "the virtual disk of the desk does not exist")


def _release_disk() -> str:
    """Release the writable disk, which differs for each desk; return its name on the bus."""
    device = posix.readlink("/sys/block/%s/device" % _find_disk()).rpartition("/")[2]
    tell_kernel(DRIVER + "/unbind", device)
    return device


def _warm_up() -> None:
    """Run commands that every desk runs; those missing in the image are skipped."""
    for argv in WARMING:
        try:
            posix.waitpid(posix.posix_spawn(argv[0], argv, {}), 0)
        except OSError:
            continue


def _make_freezer() -> ProgramFreezer:
    make_folder(PLACE)
    mount("cgroup", PLACE, "cgroup2", PLAIN | MS_NOEXEC)
    mounted = _open_folder(PLACE)
    unmount(PLACE)
    posix.rmdir(PLACE)
    freezer = ProgramFreezer(mounted)
    posix.close(mounted)
    return freezer


def _open_folder(path: str) -> int:
    return posix.open(path, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)


def _put_together(device: str, layers: int, seed: dict[str, Any]) -> int:
    """Mount the desk's file system; return the folder of its disk, which is visible nowhere afterwards."""
    tell_kernel(DRIVER + "/bind", device)
    mount("/dev/" + _find_disk(), DISK, "ext4", PLAIN | MS_NOATIME, "noinit_itable,discard")
    make_folder(DISK + "/up")
    make_folder(DISK + "/work", 0o700)
    lower = ":".join("%s/%d" % (LAYERS, number) for number in range(layers))
    mount("desk", NEW, "overlay", PLAIN, "lowerdir=%s,upperdir=%s/up,workdir=%s/work,%s" % (lower, DISK, DISK, OVERLAY))
    mount("sys", NEW + "/sys", "sysfs", PLAIN | MS_NOEXEC)
    mount("dev", NEW + "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC)
    make_folder(NEW + "/dev/pts")
    make_folder(NEW + "/dev/shm")
    mount("devpts", NEW + "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "ptmxmode=0666,mode=0620,gid=5,max=64")
    mount("shm", NEW + "/dev/shm", "tmpfs", PLAIN, "mode=1777,size=%d" % seed["shm"])
    for name, target in LINKS.items():
        try:
            posix.symlink(target, "%s/dev/%s" % (NEW, name))
        except FileExistsError:
            pass
    mount("run", NEW + "/run", "tmpfs", PLAIN, "mode=755,size=16m")
    make_folder(NEW + FOLDER)
    mount(FOLDER, NEW + FOLDER, "", MS_BIND)
    disk = _open_folder(DISK)
    _become_computer(seed, NEW, disk)
    change_root(NEW)
    return disk


def _become_computer(seed: dict[str, Any], root: str, disk: int) -> None:
    """Write the files with the desk's identity, unless they were written before: root may have changed them since."""
    _socket.sethostname(seed["name"])
    mark = b"%08x" % zlib.crc32(encode(seed["files"]))
    fd = posix.open(IDENTITY, posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC, 0o600, dir_fd=disk)
    is_new = posix.read(fd, len(mark)) != mark
    for path, (mode, data) in seed["files"].items():
        if is_new or path.startswith("run/"):
            write_file("%s/%s" % (root, path), data, mode)
    posix.pwrite(fd, mark, 0)
    posix.close(fd)


def _seed_kernel(seed: dict[str, Any]) -> None:
    """Give the kernel randomness and the time of the host: it has those of a template, or of a copy's origin."""
    reseed_kernel(seed["random"])
    _set_clock(seed["time"])


def _set_clock(microseconds: int) -> None:
    time.clock_settime_ns(time.CLOCK_REALTIME, 1000 * microseconds)


class Computer:
    """The state of this machine: its configuration and its processes."""

    def __init__(self, layers: int) -> None:
        self.layers = layers
        self.poll = select.epoll()
        self.seed: dict[str, Any] = {}
        self.listeners: dict[int, tuple[_socket.socket, str]] = {}
        self.guest = self.root = 0
        """Their pids; 0 if there is none."""
        self.wants_root = False
        """Whether to start another guest for root after the current one has ended."""
        self.disk = -1
        """The folder of the desk's disk."""
        self.freezer = _make_freezer()
        self.link = _open_port("link")
        self.mux = Mux(self.poll, _open_port("mux"), HOST_LIMIT, self.hear)
        self.wake, wake_w = posix.pipe()
        for fd in (self.wake, wake_w):
            posix.set_blocking(fd, False)
        _signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda number, at: None)
        self.poll.register(self.wake, select.EPOLLIN)

    def run(self) -> None:
        """Warm up, wait for the seed, apply it, and serve the desk until its end."""
        tell_kernel("/proc/self/oom_score_adj", "-1000")
        raise_loopback()
        _warm_up()
        device = _release_disk()
        self.mux.tell({"ready": True})
        while not self.seed:
            self.turn()
        _seed_kernel(self.seed)
        process.MARKS = posix.urandom(8).hex()
        self.disk = _put_together(device, self.layers, self.seed)
        self.listen()
        self.start_guest()
        self.mux.tell({"up": True})
        while True:
            self.turn()

    def turn(self) -> None:
        for fd, event in self.poll.poll():
            if fd == self.wake:
                posix.read(self.wake, 4096)
                self.reap()
            elif fd in self.listeners:
                self.accept(*self.listeners[fd])
            else:
                try:
                    self.mux.handle_event(fd, event)
                except EOFError:
                    time.sleep(0.01)  # the other end of the port is closed at this moment

    def hear(self, word: dict[str, Any]) -> None:
        if "seed" in word and not self.seed:
            self.seed = word["seed"]
        elif word.get("freeze"):
            self.stand_still()
        elif "thaw" in word:
            self.go_on(word["thaw"])
        elif "again" in word:
            self.start_again(word["again"])
        elif word.get("root") and self.root:
            self.wants_root = True  # the host lost its connection to the current one
            posix.kill(self.root, _signal.SIGKILL)
        elif word.get("root") and self.guest:
            self.start_root()

    def stand_still(self) -> None:
        """Stop all programs to be saved. Nothing is sent after the answer, so that a copy begins between two frames."""
        try:
            self.freezer.freeze()
        except OSError:
            self.mux.tell({"restless": True})
            return
        self.mux.tell({"still": True})
        self.mux.hold()

    def go_on(self, now: int) -> None:
        """Let programs continue after the machine was saved, at the host's time: its own clock stood still."""
        _set_clock(now)
        self.mux.go_on()
        self.freezer.thaw()
        self.mux.tell({"up": True})

    def start_again(self, seed: dict[str, Any]) -> None:
        """Become the computer of another desk, or of the same one later, before any saved program continues."""
        self.seed = seed
        self.mux.reset()
        _seed_kernel(seed)
        _become_computer(seed, "", self.disk)
        self.freezer.thaw()
        self.mux.tell({"up": True})

    def listen(self) -> None:
        for name, (owner, mode) in SOCKETS.items():
            path = "%s/%s.sock" % (FOLDER, name)
            listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
            listener.bind(path)
            posix.chown(path, owner, owner)
            posix.chmod(path, mode)
            listener.listen(BACKLOG)
            listener.setblocking(False)
            self.listeners[listener.fileno()] = (listener, name)
            self.poll.register(listener.fileno(), select.EPOLLIN)

    def accept(self, listener: _socket.socket, name: str) -> None:
        try:
            fd, _ = listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        self.mux.open(_socket.socket(fileno=fd), name)

    def start_guest(self) -> None:
        """Start the guest as the first process of a pid namespace, so that no program can end it."""
        check(libc.unshare(CLONE_NEWPID), "unshare")
        self.guest = posix.fork()
        if self.guest == 0:
            try:
                self.become_guest()
            finally:
                posix._exit(1)

    def become_guest(self) -> None:
        """Run as the guest: an ordinary user without any privilege."""
        self.freezer.admit()
        mount("proc", "/proc", "proc", PLAIN | MS_NOEXEC)
        posix.setsid()
        _signal.set_wakeup_fd(-1)
        close_others(self.link)
        limit({**self.seed["limits"], "NPROC": self.seed["pids"]})
        for capability in range(LAST_CAPABILITY + 1):
            prctl(PR_CAPBSET_DROP, capability)
        posix.setgroups([])
        posix.setresgid(USER, USER, USER)
        posix.setresuid(USER, USER, USER)
        check(prctl(PR_SET_NO_NEW_PRIVS, 1), "prctl")
        posix.umask(0o022)
        process.ENVIRONMENT.clear()
        process.ENVIRONMENT.update(self.seed["env"])
        process.kills = 0
        process.NOTHING = posix.open("/dev/null", posix.O_RDONLY)
        posix.chdir(process.HOME)
        guest = agent.Guest("", self.link)
        guest.line.dial()
        ports.attach(guest, FOLDER, is_root=False)
        guest.is_hidden = agent.hide()
        guest.run()

    def start_root(self) -> None:
        self.wants_root = False
        self.root = posix.fork()
        if self.root:
            return
        try:
            self.freezer.admit()
            posix.setsid()
            close_others(2)
            limit(self.seed["limits"])
            posix.umask(0o022)
            posix.chdir(ROOT["HOME"])
            environment = {**self.seed["env"], **ROOT}
            argv = [sys.executable, "-I", "-S", "-B", sys.argv[0], FOLDER, "root", "vm"]
            posix.execve(argv[0], argv, environment)
        finally:
            posix._exit(127)

    def reap(self) -> None:
        """Reap children. When the guest ends, the machine is powered off."""
        while True:
            try:
                pid, _ = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.guest:
                _power_off()
            elif pid == self.root:
                self.root = 0
                if self.wants_root:
                    self.start_root()


def _power_off() -> None:
    posix.sync()
    check(libc.reboot(POWER_OFF), "reboot")


def main(layers: int) -> None:
    try:
        Computer(layers).run()
    except BaseException as e:  # noqa: BLE001 - the console is the only place to report it
        print("hotdesk: the virtual machine failed:", repr(e), flush=True)
        _power_off()
