"""Attacks through files copied out of a desk and texts it influences: by names, sizes and content."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import unicodedata
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.image import image
from hotdesk.desk.owner.control import serve_control
from hotdesk.desk.owner.runtime import KeeperRuntime, container_runtime
from hotdesk.desk.owner.transfer import Fetch, get, put
from hotdesk.desk.seam import Desk, Entry, Kind, Spec
from hotdesk.errors import BriefError, FileError
from hotdesk.host import control_path
from tests.security.conftest import Attack, Command, Craft, Launch
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

SWAP = """
os.makedirs("/tmp/swap/real", exist_ok=True)
for n in ("swap/real/secret", "swap/file"):
    with open("/tmp/" + n, "w") as file:
        file.write("mine")
os.symlink(os.path.dirname(given["secret"]), "/tmp/swap/link")
os.symlink(given["secret"], "/tmp/swap/file-link")
def swap(a, b):
    call("renameat2", -100, a, -100, b, 2)
tell(1)
while True:
    swap(b"/tmp/swap/real", b"/tmp/swap/link")
    swap(b"/tmp/swap/file", b"/tmp/swap/file-link")
"""
ESCAPES = "\x1b[2J\x1b]0;owned\x07"
HIDDEN = "\u202egpj.exe\u200b\u2066\x9b31m"
LOOT = """
import shutil
os.umask(0)
shutil.rmtree("/tmp/loot", ignore_errors=True)
os.makedirs("/tmp/loot/sub")
os.chdir("/tmp/loot")
for n in ("plain", "line\\nbreak", given["escapes"], given["hidden"], "-rf", "tab\\there", "cr\\rx"):
    with open(n.encode(), "w") as file:
        file.write("x")
with open(b"broken\\xff\\xfe", "w"):
    pass
with open("sub/inner", "w") as file:
    file.write("inner")
os.symlink("/etc/passwd", "link")
os.symlink("/etc", "folder-link")
os.symlink("../../../../../../tmp", "up")
os.mkfifo("pipe")
s = socket.socket(socket.AF_UNIX)
s.bind("socket")
with open("setuid", "w") as file:
    file.write("x")
os.chmod("setuid", 0o6777)
with open("open", "w") as file:
    file.write("x")
os.chmod("open", 0o666)
deep = "deep"
for _ in range(80):
    os.mkdir(deep)
    deep += "/d"
tell(len(os.listdir(".")))
"""


class Liar:
    """A desk whose guest lies about its content: scripted answers, as a compromised guest would give."""

    def __init__(self, names: list[str], kind: Kind = "file") -> None:
        self.names = names
        self.kind = kind

    async def stat(self, path: str) -> Entry:
        return entry(path, "directory")

    async def list(self, path: str, *, depth: int = 1, limit: int = 0) -> list[Entry]:
        return [entry(name, self.kind) for name in self.names]

    async def read_stream(self, path: str) -> AsyncIterator[bytes]:
        yield b"evil"


def entry(name: str, kind: Kind) -> Entry:
    return Entry(name, name, kind, 4, 0o4755, 0, 0, 0.0)


LIAR = """#!/usr/bin/python3
import os, socket, sys
sys.path.insert(0, "/run/hotdesk/lib")
from hotdesk_guest import wire

def entry(name, kind="file", mode=0o644, size=4, path="/"):
    return {"name": name, "path": path, "kind": kind, "size": size, "mode": mode, "uid": 0, "gid": 0, "modified": 1}

NASTY = "\\x1b[2J\\x1b]0;owned\\x07\\u202e\\u200b\\n"
CLIMB = ["..", ".", "", "/etc/evil", "../evil", "a/../../evil", "a/b", "x\\0y", "x" * 256, "\\udcff"]
LISTS = {
    "/climb": [entry(name) for name in CLIMB],
    "/climb-folders": [entry(name, "directory") for name in CLIMB],
    "/control": [entry(NASTY), entry(NASTY, "directory"), entry("fine")],
    "/twice": [entry("x"), entry("x", "directory"), entry("x", "symlink"), entry("y", "directory"), entry("y")],
    "/modes": [entry("setuid", mode=0o106755), entry("open", mode=0o7777), entry("shut", mode=0)],
    "/odd": [entry("node", "device"), entry("pipe", "fifo"), entry("link", "symlink"), entry("what", "file\\x1b")],
    "/deep": [entry("d", "directory")],
    "/huge": [entry("huge", size=10**18)],
    "/negative": [entry("less", size=-(10**18), mode=-1)],
}

class Guest:
    def __init__(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/hotdesk/link.sock")
        self.reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
        self.credit, self.endless = {}, {}
        self.say(wire.HELLO, 0, {"version": wire.VERSION, "pid": 1, "home": "/home/user"})

    def say(self, kind, number, value):
        data = value if isinstance(value, bytes) else wire.encode(value)
        if number in self.credit and kind in (wire.DATA, wire.EVENT):
            self.credit[number] -= wire.compute_cost(data)
        self.sock.sendall(wire.encode_frame(kind, number, data))

    def begin(self, number, ask):
        path = ask.get("path", "")
        root = path.split("/d/")[0].removesuffix("/d")
        if ask["op"] == "exec":
            self.say(wire.REPLY, number, {"code": 0})
        elif path == "/error":
            self.say(wire.REPLY, number, {"error": NASTY, "text": NASTY * 100})
        elif ask["op"] == "stat":
            self.say(wire.REPLY, number, {"entry": entry("top", "file" if path == "/grows" else "directory", size=1)})
        elif ask["op"] == "list" and path == "/million":
            self.endless[number] = 0
        elif ask["op"] == "list":
            self.say(wire.EVENT, number, LISTS[root])
            self.say(wire.REPLY, number, {})
        elif ask["op"] == "read" and path == "/grows":
            self.endless[number] = -1
        else:
            self.say(wire.DATA, number, b"\\x01evil")
            self.say(wire.REPLY, number, {})

    def go_on(self, number):
        while self.credit[number] > wire.STEP:
            count = self.endless[number]
            if count < 0:
                self.say(wire.DATA, number, b"\\x01" + bytes(30000))
            elif count < 1000000:
                self.endless[number] += 10
                self.say(wire.EVENT, number, [entry("n%d" % n, path="x" * 2500) for n in range(count, count + 10)])
            else:
                self.say(wire.REPLY, number, {})
                del self.endless[number]
                return

    def run(self):
        while data := self.sock.recv(65536):
            for kind, number, payload in self.reader.feed(data):
                if kind == wire.OPEN:
                    self.credit[number] = wire.WINDOW
                    self.begin(number, wire.decode(payload))
                elif kind == wire.CREDIT:
                    self.credit[number] += int.from_bytes(payload, "big")
                elif kind == wire.DROP:
                    self.endless.pop(number, None)
                if number in self.endless:
                    self.go_on(number)

Guest().run()
"""
LIES: dict[str, tuple[int, set[str], str]] = {
    "/climb": (0, set(), "not safe to use"),
    "/climb-folders": (0, set(), "not safe to use"),
    "/control": (0, {"fine"}, "not safe to use"),
    "/twice": (125, {"x"}, "cannot be written here"),
    "/modes": (0, {"setuid", "open", "shut"}, ""),
    "/odd": (0, set(), "left out"),
    "/deep": (0, {"/".join("d" * depth) for depth in range(1, 64)}, "too deep"),
    "/huge": (125, set(), "larger than"),
    "/negative": (0, {"less"}, ""),
    "/million": (125, set(), "more than"),
    "/error": (125, set(), r"\x1b[2J"),
}
"""Requests to a lying guest: the command's exit code, the files then on this machine, and the output."""


@pytest.fixture
def local(home: Path) -> Iterator[Path]:
    folder = home / "local"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture(scope="module")
async def shared(runtime: KeeperRuntime, settings: Config) -> AsyncIterator[None]:
    async with serve_control(runtime, control_path(settings, os.getpid())):
        yield


def is_clean(text: str) -> bool:
    return all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn") for c in text)


@falls_without(
    "names that can be printed", Removal("owner/transfer.py", "    return name.isprintable()\n", "    return True\n")
)
@falls_without(
    "modes of our own",
    Removal("owner/transfer.py", "mode = 0o755 if found.mode & 0o100 else 0o644", "mode = found.mode"),
)
async def test_only_plain_files_and_folders_with_plain_names_come_out(desk: Desk, attack: Attack, local: Path) -> None:
    count = await attack(desk, LOOT, escapes=ESCAPES, hidden=HIDDEN)
    warnings: list[str] = []
    await get(desk, "/tmp/loot", local / "loot", warnings.append)
    names = set(os.listdir(local / "loot"))
    assert names == {"plain", "sub", "-rf", "setuid", "open", "deep"}
    assert len(warnings) == count - len(names) + 1, "each thing left out is told, and the end of the deep folder"
    assert [warning for warning in warnings if not is_clean(warning) or "\n" in warning] == []
    for path in (local / "loot").rglob("*"):
        info = path.lstat()
        assert stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
        assert stat.S_IMODE(info.st_mode) & 0o7022 == 0
    assert (local / "loot/sub/inner").read_text() == "inner"


@falls_without(
    "names without folders", Removal("owner/transfer.py", 'or "/" in name or len', 'or name.startswith("/") or len')
)
@pytest.mark.parametrize("kind", ["file", "directory"])
async def test_a_guest_that_lies_about_names_writes_nothing_elsewhere(local: Path, kind: Kind) -> None:
    names = [
        "..",
        ".",
        "",
        "/etc/evil",
        "../evil",
        "a/../../evil",
        "a/b",
        "x\0y",
        "x" * 256,
        "\udcff",
        "\u2028",
        "\x7f",
    ]
    warnings: list[str] = []
    await get(cast(Desk, Liar(names, kind)), "/loot", local / "inside", warnings.append)
    assert os.listdir(local) == ["inside"]
    assert os.listdir(local / "inside") == []
    assert len(warnings) == len(names)
    assert [warning for warning in warnings if not is_clean(warning)] == []


@pytest.mark.sample(5)
@falls_without("names without folders", cases="/climb | /climb-folders")
@falls_without("names that can be printed", cases="/control")
@falls_without("modes of our own", cases="/modes | /negative")
@falls_without(
    "so large a file",
    Removal("owner/transfer.py", "if found.size > self.remaining_bytes:", "if found.size > 1 << 80:"),
    cases="/huge",
)
@falls_without(
    "so long a listing",
    Removal("link/channel.py", "MAX_LISTING_BYTES = 32 * MIB", "MAX_LISTING_BYTES = 1 * MIB"),
    Removal(
        "link/desk.py",
        'raise FileError(f"{path} has more than {most}; list a smaller folder", "other")',
        "return found",
    ),
    cases="/million",
)
@falls_without("so deep a folder", Removal("owner/transfer.py", "DEPTH = 64", "DEPTH = 70"), cases="/deep")
@falls_without(
    "one thing by one name",
    Removal(
        "owner/transfer.py",
        "        with suppress(FileExistsError):\n",
        "        with suppress(FileExistsError):\n"
        '            if os.path.isfile(f"/proc/self/fd/{above}/{name}"):\n'
        "                os.unlink(name, dir_fd=above)\n",
    ),
    cases="/twice",
)
@falls_without(
    "kinds that we know",
    Removal("link/replies.py", '(str(value.get("kind")), "other")', '(str(value.get("kind")), "file")'),
    cases="/odd",
)
@falls_without(
    "texts that can be printed",
    Removal("hotdesk/errors.py", "c if c.isprintable() and c not in UNSEEN else", "c if c else"),
    cases="/error",
)
@pytest.mark.parametrize("lie", LIES)
async def test_a_lying_guest_gets_no_other_file_copied(
    crafted: Craft, command: Command, local: Path, home: Path, lie: str
) -> None:
    def fill(layer: Path) -> None:
        (layer / "evil").mkdir()
        (layer / "evil/python").write_text(LIAR)
        (layer / "evil/python").chmod(0o755)

    code, names, words = LIES[lie]
    settings = crafted("liar", fill, python="/evil/python")
    before = set(os.listdir(home))
    done = await command(settings, "run", "--image", "liar", "--out", f"{lie}:{local}/inside", "--", "true")
    said = done.stderr.decode("utf-8", "surrogateescape")
    assert (done.returncode, words in said) == (code, True), said
    assert is_clean(said)
    assert len(said) < 20_000
    assert set(os.listdir(local)) <= {"inside"}
    assert set(os.listdir(home)) == before
    found = {str(path.relative_to(local / "inside")) for path in (local / "inside").rglob("*")}
    assert found == names
    for path in local.rglob("*"):
        info = path.lstat()
        assert stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
        assert stat.S_IMODE(info.st_mode) & 0o7022 == 0


@falls_without(
    "so many bytes",
    Removal("owner/transfer.py", "if self.remaining_bytes < 0:", "if self.remaining_bytes < -(8 << 20):"),
)
async def test_a_file_that_grows_without_end_stops_at_the_limit(crafted: Craft, local: Path) -> None:
    def fill(layer: Path) -> None:
        (layer / "evil").mkdir()
        (layer / "evil/python").write_text(LIAR)
        (layer / "evil/python").chmod(0o755)

    async with container_runtime(crafted("liar", fill, python="/evil/python")) as runtime:
        desk = await runtime.open(Spec(image="liar"))
        above = os.open(local, os.O_RDONLY)
        try:
            found = await desk.stat("/grows")
            with pytest.raises(FileError, match="the copy exceeds the limit"):
                await Fetch(desk, print, remaining_bytes=8 * MIB).copy_entry(found, "/grows", above, "grows", 0)
        finally:
            os.close(above)
    assert (local / "grows").stat().st_size <= 8 * MIB


class Endless(Liar):
    """A desk with a file that never ends."""

    closed = False

    async def read_stream(self, path: str) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * MIB
        finally:
            self.closed = True


@falls_without(
    "a copy that is stopped closes what it reads",
    Removal(
        "owner/transfer.py",
        "async with aclosing(self.desk.read_stream(remote)) as stream:",
        "if stream := self.desk.read_stream(remote):",
    ),
)
async def test_a_cancelled_copy_stops_reading(local: Path) -> None:
    desk, above = Endless([]), os.open(local, os.O_RDONLY)
    try:
        with pytest.raises(FileError, match="the copy exceeds the limit"):
            await Fetch(cast(Desk, desk), print, remaining_bytes=4 * MIB).copy_entry(
                entry("grows", "file"), "/g", above, "g", 0
            )
    finally:
        os.close(above)
    assert desk.closed, "the collector would close it later, in whichever task is running then"


@falls_without("kinds that we know")
async def test_devices_of_an_image_are_not_copied_out(crafted: Craft, command: Command, local: Path) -> None:
    def fill(layer: Path) -> None:
        (layer / "evil").mkdir()
        os.mknod(layer / "evil/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(layer / "evil/disk", stat.S_IFBLK | 0o666, os.makedev(7, 0))
        (layer / "evil/plain").write_text("x")
        (layer / "evil/plain").chmod(0o6755)

    settings = crafted("nodes", fill)
    done = await command(settings, "run", "--image", "nodes", "--out", f"/evil:{local}/evil", "--", "true")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(b"left out") == 2
    assert os.listdir(local / "evil") == ["plain"]
    assert stat.S_IMODE((local / "evil/plain").stat().st_mode) == 0o755


@no_guard("links are read by the guest, in the desk: there is nothing of the host's to reach")
@pytest.mark.usefixtures("shared")
async def test_a_link_swapped_in_during_a_copy_leads_nowhere(
    desk: Desk, launch: Launch, settings: Config, command: Command, local: Path
) -> None:
    (local / "secret").write_text("precious")
    process, _ = await launch(desk, SWAP, secret=str(local / "secret"))
    try:
        copied = 0
        for number in range(60):
            if number >= 5 and copied:
                break
            target = local / str(number)
            done = await command(settings, "cp", f"{desk.id}:/tmp/swap", str(target))
            assert done.returncode in (0, 125), done.stderr
            copied += done.returncode == 0 and any(path.is_file() for path in target.rglob("*"))
            for path in target.rglob("*"):
                assert not path.is_symlink()
                assert path.is_dir() or path.read_text() in ("mine", "")
        assert copied, "every copy failed before it had a file"
    finally:
        await process.kill()


@falls_without(
    "folders by descriptor",
    Removal(
        "owner/transfer.py",
        "        fd = open_local(name, os.O_RDONLY | os.O_DIRECTORY, above)\n",
        '        place = os.readlink(f"/proc/self/fd/{above}").replace("-moved", "")\n'
        '        fd = os.open(f"{place}/{name}", os.O_RDONLY)\n',
    ),
    Removal(
        "owner/transfer.py",
        "        fd = open_local(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, above, mode)\n",
        '        place = os.readlink(f"/proc/self/fd/{above}").replace("-moved", "")\n'
        '        fd = os.open(f"{place}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)\n',
    ),
)
async def test_a_link_swapped_in_on_this_machine_during_a_copy_is_not_followed(desk: Desk, local: Path) -> None:
    """Another writer there (an earlier result, another program) replaces a folder by a link during the copy."""
    await desk.run(["sh", "-c", "mkdir -p /tmp/swapped/sub; cd /tmp/swapped; echo evil >sub/victim; echo evil >victim"])
    outside = local / "outside"
    outside.mkdir()
    (outside / "victim").write_text("precious")

    class Swapping(Fetch):
        async def copy_entry(self, found: Entry, remote: str, folder: int, name: str, depth: int) -> None:
            if name == "victim":
                for at in (local / "tree/sub", local / "tree"):
                    if at.is_dir() and not at.is_symlink():
                        at.rename(at.with_name(f"{at.name}-moved"))
                        at.symlink_to(outside)
            await super().copy_entry(found, remote, folder, name, depth)

    above = os.open(local, os.O_RDONLY)
    try:
        await Swapping(desk, print).copy_entry(await desk.stat("/tmp/swapped"), "/tmp/swapped", above, "tree", 0)
    finally:
        os.close(above)
    assert (outside / "victim").read_text() == "precious"


@falls_without(
    "so many entries",
    Removal("owner/transfer.py", "if self.remaining_entries < 0:", "if self.remaining_entries < -1000:"),
)
async def test_a_guest_that_sends_an_endless_listing_is_stopped(local: Path) -> None:
    fetch = Fetch(cast(Desk, Liar(["same"] * 50)), lambda text: None, remaining_entries=20)
    above = os.open(local, os.O_RDONLY)
    try:
        with pytest.raises(FileError, match="more than"):
            await fetch.copy_entry(entry("x", "directory"), "/x", above, "x", 0)
    finally:
        os.close(above)


@falls_without(
    "no link asked for", Removal("owner/transfer.py", 'if found.kind == "symlink":', 'if found.kind == "none":')
)
async def test_a_link_in_the_desk_is_never_followed(desk: Desk, attack: Attack, local: Path) -> None:
    await attack(desk, LOOT, escapes=ESCAPES, hidden=HIDDEN)
    for name in ("link", "folder-link", "up"):
        with pytest.raises(FileError, match="symbolic link"):
            await get(desk, f"/tmp/loot/{name}", local / name, lambda text: None)
    assert os.listdir(local) == []


@falls_without(
    "no link followed here",
    Removal("owner/transfer.py", "flags | os.O_NOFOLLOW | os.O_CLOEXEC", "flags | os.O_CLOEXEC"),
)
@falls_without(
    "regular files only", Removal("owner/transfer.py", "if not stat.S_ISREG(os.fstat(fd).st_mode):", "if fd < 0:")
)
async def test_links_pipes_and_devices_of_this_machine_are_not_written_through(
    desk: Desk, attack: Attack, local: Path
) -> None:
    await attack(desk, LOOT, escapes=ESCAPES, hidden=HIDDEN)
    victim = local / "victim"
    victim.write_text("precious")
    (local / "outside").mkdir()
    (local / "link").symlink_to(victim)
    os.mkfifo(local / "pipe")
    os.mknod(local / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    for name in ("link", "pipe", "device"):
        with anyio.fail_after(10), pytest.raises(BriefError):
            await get(desk, "/tmp/loot/plain", local / name, lambda text: None)
    (local / "tree").mkdir()
    (local / "tree/sub").symlink_to(local / "outside")
    with pytest.raises(BriefError):
        await get(desk, "/tmp/loot", local / "tree", lambda text: None)
    (local / "whole").symlink_to(local / "outside")
    with pytest.raises(BriefError):
        await get(desk, "/tmp/loot", local / "whole", lambda text: None)
    assert victim.read_text() == "precious"
    assert os.listdir(local / "outside") == []


@falls_without("so many bytes")
async def test_a_copy_ends_at_its_byte_limit(desk: Desk, local: Path) -> None:
    await desk.run(["truncate", "-s", "10T", "/tmp/sparse"])
    above = os.open(local, os.O_RDONLY)
    try:
        found = replace(await desk.stat("/tmp/sparse"), size=1)  # a desk may send anything
        with pytest.raises(FileError, match="the copy exceeds the limit"):
            await Fetch(desk, print, remaining_bytes=8 * MIB).copy_entry(found, "/tmp/sparse", above, "sparse", 0)
    finally:
        os.close(above)
    assert (local / "sparse").stat().st_size <= 8 * MIB


@falls_without("so large a file")
async def test_a_file_larger_than_the_limit_is_refused_before_it_is_copied(desk: Desk, local: Path) -> None:
    await desk.run(["truncate", "-s", "10T", "/tmp/sparse"])
    with anyio.fail_after(20), pytest.raises(FileError):
        await get(desk, "/tmp/sparse", local / "sparse", print)
    assert not (local / "sparse").exists() or (local / "sparse").stat().st_size < 16 * MIB


@falls_without(
    "no folder behind a link on the way in",
    Removal("owner/transfer.py", "if not os.path.islink(os.path.join(folder, name)):", "if name:"),
)
async def test_a_folder_with_a_link_out_of_it_is_not_followed_on_the_way_in(desk: Desk, local: Path) -> None:
    (local / "tree").mkdir()
    (local / "secret").mkdir()
    (local / "secret/key").write_text("key")
    (local / "tree/into").symlink_to(local / "secret")
    await put(desk, local / "tree", "/tmp/tree")
    assert [found.name for found in await desk.list("/tmp/tree", depth=3)] == []


@falls_without("texts that can be printed")
@pytest.mark.usefixtures("shared")
async def test_what_the_command_line_prints_is_escaped(
    desk: Desk, attack: Attack, settings: Config, command: Command, local: Path
) -> None:
    await attack(desk, LOOT, escapes=ESCAPES, hidden=HIDDEN)
    nasty = f"/tmp/{ESCAPES}{HIDDEN}"
    await attack(desk, "os.path.lexists(given['at']) or os.symlink('/etc/passwd', given['at'])\ntell(1)", at=nasty)
    runs = {
        "a folder": ["cp", f"{desk.id}:/tmp/loot", str(local / "loot")],
        "a missing file": ["cp", f"{desk.id}:{nasty}-not", str(local / "x")],
        "a link": ["cp", f"{desk.id}:{nasty}", str(local / "x")],
        "into a missing folder": ["cp", f"{desk.id}:/tmp/loot/plain/{ESCAPES}", str(local / "x")],
        "a program that is not there": ["exec", desk.id, "--", f"{ESCAPES}{HIDDEN}"],
        "a program that is no program": ["exec", desk.id, "--", "/tmp/loot/plain"],
        "a folder that is not there": ["exec", desk.id, "--cwd", nasty, "--", "true"],
        "an id that is none": ["burn", f"i{ESCAPES}{HIDDEN}"],
        "an image that is none": ["run", "--image", f"{ESCAPES}{HIDDEN}", "--", "true"],
    }
    for what, argv in runs.items():
        done = await command(settings, *argv)
        said = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
        assert (done.returncode == 0) == (what == "a folder"), f"{what}: {said}"
        assert said, what
        assert is_clean(said), f"{what}: {said!r}"


@falls_without("texts that can be printed")
async def test_ps_and_image_ls_escape_names(settings: Config, command: Command, local: Path) -> None:
    folder = settings.run / "desks" / ("i" + "z" * 20)
    folder.mkdir()
    try:
        text = json.dumps({"id": "i", "image": HIDDEN, "state": ESCAPES, "opened": 1})
        (folder / "desk.json").write_text(text)
        done = [await command(settings, "ps"), await command(settings, "ps", "--json")]
    finally:
        for name in ("desk.json", "owner.lock"):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    base = image.find(settings.images, "base")
    (local / "store/images").mkdir(parents=True)
    (local / "store/layers").mkdir()
    for layer in base.layers:
        (local / "store/layers" / layer.name).symlink_to(layer)
    record = image.dump(base).replace(b'"source": "', b'"source": "\\u001b[2J\\u202e\\u200b')
    (local / "store/images/base.json").write_bytes(record)
    done += [
        await command(replace(settings, images=local / "store"), "image", "ls", *more) for more in ([], ["--json"])
    ]
    for each in done:
        assert each.returncode == 0, each.stderr
        assert b"u202e" in each.stdout
        assert is_clean(each.stdout.decode())


@falls_without("texts that can be printed")
@pytest.mark.usefixtures("shared")
async def test_a_requested_traceback_is_escaped_too(
    desk: Desk, settings: Config, command: Command, local: Path
) -> None:
    done = await command(settings, "cp", "--debug", f"{desk.id}:/tmp/{ESCAPES}", str(local / "x"))
    assert b"Traceback" in done.stderr
    assert is_clean(done.stderr.decode("utf-8", "surrogateescape"))
