"""What stands around one desk: user and network namespaces, disk, overlay, devices, cgroup. Made and unmade here.

Everything is mounted in the keeper's private mount namespace: a keeper that is killed takes its mounts with it.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotdesk.desk import bundle, filters, kernel, seed, trust, uids
from hotdesk.desk.cgroup import Cgroup, Limits
from hotdesk.desk.disk import Disk
from hotdesk.desk.filesystem import opened
from hotdesk.desk.image import Image
from hotdesk.desk.layers import Layers
from hotdesk.desk.seam import Spec

GATE = ("127.0.0.1", 3128)
CALL_MOMENT = 10
"""Milliseconds a server of a desk may take to refuse a call before its caller has to wait for it."""
NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
HIDDEN = frozenset(name for name in (*bundle.EMPTY_FILES, *bundle.EMPTY_FOLDERS) if os.path.exists(f"/proc/{name}"))


@dataclass(slots=True)
class Room:
    """One desk's surroundings, and how to take each piece down again."""

    desk: str
    folder: Path
    """A tmpfs of its own, in the keeper's mount namespace; paths a desk can see are relative to it."""
    cgroup: Cgroup
    disk: Disk
    base: int
    """The first of its host user ids."""
    image: Image
    spec: Spec
    undo: list[Callable[[], object]] = field(default_factory=list)
    userns: int = -1
    netns: int = -1
    gate: socket.socket | None = None
    listener: socket.socket | None = None
    sudo: socket.socket | None = None
    """Where `sudo` calls, in a desk that may have root."""
    plan: bundle.Room | None = None
    layers: Layers = field(init=False)

    def prepare(self, guest: dict[str, bytes], compiled: str | None, ca: str = "", source: str | None = None) -> None:
        """Make every piece; `source` is the disk's snapshot to begin with. On failure the caller runs `clear`."""
        spec = self.spec
        self.userns = kernel.new_userns(self.base + uids.ANCHOR, uids.id_map(self.base), uids.id_map(self.base))
        self.netns, self.gate = kernel.in_new_netns(open_gate)
        self.folder.mkdir(mode=0o711)
        self.undo.append(self.folder.rmdir)
        kernel.mount("room", str(self.folder), "tmpfs", kernel.MS_NOSUID, "size=4m,nr_inodes=1024,mode=711")
        self.undo.append(lambda: kernel.umount(str(self.folder)))
        self.make_dev()
        self.make_sys(spec)
        self.make_proc()
        self.make_link(guest)
        if spec.root:
            self.sudo = self.listen("sudo.sock", uids.USER, 0o666)
        self.layers = Layers(self.desk, self.folder, self.disk, self.base, self.userns, self.undo)
        files = seed.identity(self.desk) | seed.privileges(spec.root, ca, self.image.python)
        self.layers.put_up(self.image, spec.disk, files, source)
        self.cgroup.make(limits_of(spec))
        self.write_config(guest, compiled, trust.environment() if ca else {})

    def make_dev(self) -> None:
        """Make device nodes of its own: on the host's, desks could see each other's and the host's use of them."""
        dev = self.folder / "dev"
        dev.mkdir(mode=0o755)
        for name, (major, minor) in NODES.items():
            os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            os.chmod(dev / name, 0o666)  # noqa: S103 - as /dev/null is everywhere
        for name, target in LINKS.items():
            os.symlink(target, dev / name)
        for name in ("pts", "shm"):
            (dev / name).mkdir(mode=0o755)

    def make_sys(self, spec: Spec) -> None:
        """Make a /sys that says only what is true of the desk: its CPUs and its loopback."""
        cpus = f"0-{max(1, round(spec.cpus)) - 1}\n" if spec.cpus > 1 else "0\n"
        files = {f"devices/system/cpu/{name}": cpus for name in ("online", "possible", "present")}
        files |= {"class/net/lo/mtu": "65536\n", "class/net/lo/operstate": "unknown\n"}
        for name, text in files.items():
            file = self.folder / "sys" / name
            file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            file.write_text(text)

    def make_proc(self) -> None:
        """Make what covers the parts of /proc that tell of the host."""
        proc = self.folder / "proc"
        (proc / "none").mkdir(mode=0o755, parents=True)
        for name, text in {"empty": "", "boot_id": "", **bundle.STEADY_FILES}.items():
            file = proc / name
            file.write_text(text)
            file.chmod(0o444)
        self.be_reborn()

    def be_reborn(self) -> None:
        """Have a boot id nobody had before."""
        (self.folder / "proc/boot_id").write_text(random_uuid())

    def make_link(self, guest: dict[str, bytes]) -> None:
        """Make the folder the guest's code lies in, and the socket it dials. Only the desk's own user may dial."""
        link = self.folder / "link"
        (link / "lib/hotdesk_guest").mkdir(mode=0o755, parents=True)
        for name, data in guest.items():
            (link / "lib/hotdesk_guest" / name).write_bytes(data)
        self.await_guest()

    def await_guest(self) -> None:
        """Listen where the desk's first process calls."""
        self.listener = self.listen("link.sock", uids.USER, 0o600)

    def listen(self, name: str, uid: int, mode: int) -> socket.socket:
        """Listen in the folder a desk can read and not write, where this user inside finds it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link = self.folder / "link"
        (link / name).unlink(missing_ok=True)
        with opened(link) as fd:
            listener.bind(f"/proc/self/fd/{fd}/{name}")  # a socket's path is at most 107 bytes
        os.chmod(link / name, mode)
        os.chown(link / name, self.base + uid, self.base + uid)
        listener.listen(16)
        return listener

    def admit_root(self) -> socket.socket:
        """Prepare what root's guest needs; give the socket it will dial."""
        assert self.plan is not None
        (self.folder / "bundle/root.json").write_text(json.dumps(bundle.root_process(self.plan)))
        return self.listen("root.sock", 0, 0o600)

    def hang_up(self) -> None:
        """Take no more calls of a guest: the owner has the socket, or nobody will."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    def settle(self, spec: Spec, ca: str, pid: int) -> None:
        """Make a desk that was kept ready the one that is asked for; nobody has used it yet."""
        assert self.plan is not None
        if limits_of(spec) != limits_of(self.spec):
            self.cgroup.limit(limits_of(spec))
        if spec.disk != self.spec.disk:
            self.disk.resize(self.desk, spec.disk)
        if spec.cpus != self.spec.cpus:
            self.make_sys(spec)
        if spec.memory != self.spec.memory:
            kernel.resize_tmpfs(f"/proc/{pid}/root/dev/shm", bundle.shared_memory(spec.memory))
        if spec.root:
            self.sudo = self.listen("sudo.sock", uids.USER, 0o666)
        if files := seed.privileges(spec.root, ca, self.plan.python):
            with kernel.making_files_as(self.base):
                seed.plant(self.folder / "root", files)
        led = trust.environment() if ca else {}
        self.plan = replace(self.plan, memory=spec.memory, env={**led, **spec.env})
        self.spec = spec

    def reboot(self) -> None:
        """Prepare for the runtime to start the desk anew."""
        assert self.plan is not None
        self.be_reborn()
        self.await_guest()
        (self.folder / "bundle/config.json").write_text(json.dumps(bundle.config(self.plan)))

    def write_config(self, guest: dict[str, bytes], compiled: str | None, led: dict[str, str]) -> None:
        """Write the OCI bundle; `led` are the variables by which programs find the door."""
        (self.folder / "bundle").mkdir(mode=0o700)
        self.plan = bundle.Room(
            desk=self.desk,
            root=str(self.folder / "root"),
            dev=str(self.folder / "dev"),
            sys=str(self.folder / "sys"),
            proc=str(self.folder / "proc"),
            link=str(self.folder / "link"),
            userns=f"/proc/{os.getpid()}/fd/{self.userns}",
            netns=f"/proc/{os.getpid()}/fd/{self.netns}",
            memory=self.spec.memory,
            python=self.image.python,
            machine=os.uname().machine,
            hidden=HIDDEN,
            guest=next(name for name in guest if name.startswith("start.")),
            annotation=filters.ANNOTATION,
            filter=compiled,
            limits=hard_limits(),
            env={**led, **self.spec.env},
        )
        (self.folder / "bundle/config.json").write_text(json.dumps(bundle.config(self.plan)))

    def clear(self) -> list[str]:
        """Take everything down, last made first; say what resisted."""
        self.close()
        left = []
        kept = []
        for step in (*reversed(self.undo), self.cgroup.remove):
            try:
                step()
            except OSError as e:
                left.append(str(e))
                kept.append(step)
        self.undo = [step for step in reversed(kept) if step != self.cgroup.remove]
        return left

    def close(self) -> None:
        """Let go of the namespaces and sockets."""
        for fd in (self.userns, self.netns):
            if fd >= 0:
                os.close(fd)
        self.userns = self.netns = -1
        self.hang_up()
        for held in (self.gate, self.sudo):
            if held is not None:
                held.close()
        self.gate = self.sudo = None


def limits_of(spec: Spec) -> Limits:
    """Give what a desk of a spec may use."""
    return Limits(memory=spec.memory, pids=spec.pids, cpus=spec.cpus)


def call_port(port: int) -> socket.socket:
    """Begin a connection to a server of the desk's; called inside its network namespace.

    A refusal on loopback comes within a moment, and then the other family is tried; whoever gets the socket waits for
    the rest.
    """
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        caller = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, socket.IPPROTO_TCP)
        failure = caller.connect_ex((address, port))
        if failure == errno.EINPROGRESS:
            poll = select.poll()
            poll.register(caller, select.POLLOUT)
            poll.poll(CALL_MOMENT)
            failure = caller.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not failure:
            return caller
        caller.close()
    raise ConnectionRefusedError(f"nobody listens at port {port} of the desk")


def open_gate() -> socket.socket:
    """Listen where the desk finds its only way out; called inside the desk's network namespace.

    The protocol is named because asyncio leaves Nagle on for sockets that do not name it.
    """
    kernel.raise_loopback()
    gate = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    gate.bind(GATE)
    gate.listen(256)
    return gate


def hard_limits() -> dict[str, int]:
    """Read the limits this process cannot go beyond."""
    held = {
        name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
        for name in bundle.LIMITS
        if name != "SIGPENDING"
    }
    return {name: value for name, value in held.items() if value != resource.RLIM_INFINITY}


def random_uuid() -> str:
    """Give a random uuid as the kernel prints its boot id."""
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}\n"
