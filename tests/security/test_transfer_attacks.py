"""Files that come out of a desk, and texts it had a hand in: nothing it names, sizes or says steers this machine."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk import image
from hotdesk.desk.control import controlled
from hotdesk.desk.oci import ContainerRuntime
from hotdesk.desk.seam import Desk, Entry, Kind
from hotdesk.desk.transfer import Fetch, get, put
from hotdesk.errors import BriefError, FileError
from hotdesk.host import control_path

Attack = Callable[..., Awaitable[Any]]

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

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
    """A desk whose guest lies about what is in it: scripted answers, as a guest gone bad would give."""

    def __init__(self, names: list[str], kind: Kind = "file") -> None:
        self.names = names
        self.kind = kind

    async def stat(self, path: str) -> Entry:
        """Say that everything is a folder."""
        return entry(path, "directory")

    async def list(self, path: str, *, depth: int = 1, limit: int = 0) -> list[Entry]:
        """Give the names of the script."""
        return [entry(name, self.kind) for name in self.names]

    async def read_stream(self, path: str) -> AsyncIterator[bytes]:
        """Give a byte that must not be found outside."""
        yield b"evil"


def entry(name: str, kind: Kind) -> Entry:
    """Describe something as a guest would."""
    return Entry(name, name, kind, 4, 0o4755, 0, 0, 0.0)


@pytest.fixture
def local(home: Path) -> Iterator[Path]:
    """Give a folder of this machine to copy into."""
    folder = home / "local"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture(scope="module")
async def shared(runtime: ContainerRuntime, settings: Config) -> AsyncIterator[None]:
    """Serve this file's desks to the command line."""
    async with controlled(runtime, control_path(settings, os.getpid())):
        yield


def is_clean(text: str) -> bool:
    """Say whether a text can neither steer a terminal nor hide in one."""
    return all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn") for c in text)


async def hotdesk(settings: Config, *argv: str, images: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the real command on this session's state directory."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOTDESK_HOME": str(settings.run.parent),
        "HOTDESK_IMAGES": str(images or settings.images),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    whole = [sys.executable, "-c", "from hotdesk.cli import main; main()", *argv]
    with anyio.fail_after(40):
        return await anyio.run_process(whole, env=environment, check=False, stdin=subprocess.DEVNULL)


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


async def test_a_guest_that_lists_without_end_is_stopped(local: Path) -> None:
    fetch = Fetch(cast(Desk, Liar(["same"] * 50)), lambda text: None, entries_left=20)
    above = os.open(local, os.O_RDONLY)
    try:
        with pytest.raises(FileError, match="more than"):
            await fetch.entry(entry("x", "directory"), "/x", above, "x", 0)
    finally:
        os.close(above)


async def test_a_link_in_the_desk_is_never_followed(desk: Desk, attack: Attack, local: Path) -> None:
    await attack(desk, LOOT, escapes=ESCAPES, hidden=HIDDEN)
    for name in ("link", "folder-link", "up"):
        with pytest.raises(FileError, match="symbolic link"):
            await get(desk, f"/tmp/loot/{name}", local / name, lambda text: None)
    assert os.listdir(local) == []


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


async def test_a_copy_ends_at_its_byte_limit(desk: Desk, local: Path) -> None:
    await desk.run(["truncate", "-s", "10T", "/tmp/sparse"])
    above = os.open(local, os.O_RDONLY)
    try:
        found = replace(await desk.stat("/tmp/sparse"), size=1)  # a desk may say what it likes
        with pytest.raises(FileError, match="would come out"):
            await Fetch(desk, print, bytes_left=8 * MIB).entry(found, "/tmp/sparse", above, "sparse", 0)
    finally:
        os.close(above)
    assert (local / "sparse").stat().st_size <= 8 * MIB


async def test_a_file_larger_than_the_limit_is_refused_before_it_is_copied(desk: Desk, local: Path) -> None:
    await desk.run(["truncate", "-s", "10T", "/tmp/sparse"])
    with anyio.move_on_after(2), pytest.raises(FileError):
        await get(desk, "/tmp/sparse", local / "sparse", print)
    assert not (local / "sparse").exists() or (local / "sparse").stat().st_size < 16 * MIB


async def test_a_folder_with_a_link_out_of_it_is_not_followed_on_the_way_in(desk: Desk, local: Path) -> None:
    (local / "tree").mkdir()
    (local / "secret").mkdir()
    (local / "secret/key").write_text("key")
    (local / "tree/into").symlink_to(local / "secret")
    await put(desk, local / "tree", "/tmp/tree")
    assert [found.name for found in await desk.list("/tmp/tree", depth=3)] == []


@pytest.mark.usefixtures("shared")
async def test_what_the_command_line_prints_is_escaped(
    desk: Desk, attack: Attack, settings: Config, local: Path
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
        done = await hotdesk(settings, *argv)
        said = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
        assert (done.returncode == 0) == (what == "a folder"), f"{what}: {said}"
        assert said, what
        assert is_clean(said), f"{what}: {said!r}"


async def test_ps_and_image_ls_escape_what_they_find(settings: Config, home: Path, local: Path) -> None:
    folder = settings.run / "desks" / ("i" + "z" * 20)
    folder.mkdir()
    try:
        text = json.dumps({"id": "i", "image": HIDDEN, "state": ESCAPES, "opened": 1})
        (folder / "desk.json").write_text(text)
        done = [await hotdesk(settings, "ps"), await hotdesk(settings, "ps", "--json")]
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
    done += [await hotdesk(settings, "image", "ls", *more, images=local / "store") for more in ([], ["--json"])]
    for each in done:
        assert each.returncode == 0, each.stderr
        assert b"u202e" in each.stdout
        assert is_clean(each.stdout.decode())


@pytest.mark.usefixtures("shared")
async def test_a_traceback_asked_for_is_escaped_too(desk: Desk, settings: Config, local: Path) -> None:
    done = await hotdesk(settings, "cp", "--debug", f"{desk.id}:/tmp/{ESCAPES}", str(local / "x"))
    assert b"Traceback" in done.stderr
    assert is_clean(done.stderr.decode("utf-8", "surrogateescape"))
