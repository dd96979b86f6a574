"""What every test gets: one event loop, settings of its own, and the proof that nothing is left behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hotdesk.brain.models import allowed
from hotdesk.config import Config
from hotdesk.desk import uids
from hotdesk.desk.local import SWITCH
from tests.origins import ORIGINS, Origin, turn

SETTLING = 20.0
"""Seconds the kernel may take to let go of what was closed."""
LOCAL_FOLDER = re.compile(r"/[^\0 ]*/hotdesk-i[a-z0-9]{20}-[^\0/ ]*")
PLACEHOLDER = re.compile(r"otdesk.{1,3}secret|Basic [A-Za-z0-9+/]{60}")
LAST_UID = uids.FIRST + uids.WIDTH * uids.SLOTS
LIST_POOL = """
import sys
from pathlib import Path
from hotdesk.desk import disk, kernel
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
pool = disk.Btrfs(Path(sys.argv[1]), Path(sys.argv[2]))
pool.mount()
print(*pool.left())
"""

os.environ[SWITCH] = "1"
os.environ[allowed.SWITCH] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run choose where desks come from."""
    parser.addoption("--origins", help=f"run every test on desks of these origins: {','.join(ORIGINS)}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on desks of every origin, most of them in the long run; those opened are not named."""
    if "origin" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("origins")
    first = pytest.param("opened", id=pytest.HIDDEN_PARAM)
    cases = {name: pytest.param(name, marks=pytest.mark.long) for name in ORIGINS} | {"opened": first}
    if (soon := turn(metafunc.function)) is not None:
        cases[soon] = pytest.param(soon)
    if asked:
        cases = {name: first if name == "opened" else pytest.param(name) for name in asked.split(",")}
    metafunc.parametrize("origin", list(cases.values()), indirect=True, scope="module")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case with a placeholder by its argument: what is random in it would be another in every worker."""
    told = val.decode("utf-8", "replace") if isinstance(val, bytes) else val
    return argname if isinstance(told, str) and PLACEHOLDER.search(told) else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that needs what this machine lacks: skipped, it would prove nothing."""
    if item.get_closest_marker("container") is None:
        return
    if os.geteuid() != 0:
        pytest.fail("opening a desk needs root: run the tests with sudo", pytrace=False)
    if shutil.which("crun") is None:
        pytest.fail("crun is not installed: apt-get install crun", pytrace=False)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run every test and fixture in one task of one asyncio loop, so that a fixture may hold a task group."""
    return "asyncio"


@pytest.fixture(scope="module")
def origin(request: pytest.FixtureRequest) -> Origin:
    """Give the way in which desks come to be here."""
    return ORIGINS[request.param]


@pytest.fixture(scope="session", autouse=True)
def home() -> Iterator[Path]:
    """Give a state directory of this session's own, and prove in the end that nothing of it is left on the machine."""
    folder = Path(tempfile.mkdtemp(prefix="hotdesk-test-", dir="/tmp"))
    folder.chmod(0o755)
    if "PYTEST_XDIST_WORKER" in os.environ:  # local desks of a session beside ours are not ours
        (folder / "tmp").mkdir(mode=0o1777)
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
    before = things(folder)
    yield folder
    left = {f"layer {name} in the pool" for name in pool_left(folder)}
    left |= settle(lambda: things(folder) - before)
    shutil.rmtree(folder)
    assert not left, "left after the session:\n" + "\n".join(sorted(left))


@pytest.fixture(scope="session")
def settings(home: Path) -> Config:
    """Give settings for this session's state directory and the machine's images."""
    return settings_in(home)


def settings_in(folder: Path) -> Config:
    """Give settings for a state directory of its own: for desks that live on from test to test, and change."""
    images = Path(os.environ.get("HOTDESK_IMAGES") or "/var/lib/hotdesk/images")
    return Config(run=folder / "run", lib=folder / "lib", images=images)


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest, home: Path) -> Iterator[None]:
    """Prove that a test which may open desks leaves none, nor any part of one."""
    if "settings" not in request.fixturenames:
        yield
        return
    before = things(home)
    yield
    left = settle(lambda: {thing for thing in things(home) - before if not is_shared(thing, home)})
    assert not left, "left after the test:\n" + "\n".join(sorted(left))


def is_shared(thing: str, home: Path) -> bool:
    """Say whether a thing may stay: a runtime that several tests share mounts its pool on first need, and keeps it."""
    return thing.startswith("loop") and bool(keepers(home))


def settle(difference: Callable[[], set[str]]) -> set[str]:
    """Give what is still different after a while."""
    end = time.monotonic() + SETTLING
    while (left := difference()) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def things(home: Path) -> set[str]:
    """List what desks of a state directory, and local ones of this process, hold on this machine."""
    strangers = foreign(home)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found = {f"mount {line}" for line in mounts if f"{home}/" in line}
    found |= {f"loop {name}" for name in loops() if f"{home}/" in name}
    found |= {f"cgroup {folder}" for folder in cgroups()}
    found |= {f"uids {slot} for {desk}" for slot, desk in claims().items()}
    found |= {f"folder {folder}" for folder in Path(tempfile.gettempdir()).glob("hotdesk-i*")}
    for part in ("desks", "runtime"):
        found |= {f"file {file}" for file in (home / "run" / part).glob("*")}
    for pid in processes(home, strangers):
        found.add(f"process {pid} {cmdline(pid)[:150]}")
        found |= {f"namespace {name}" for name in namespaces(pid)}
    strangers |= foreign(home)  # whoever came while we looked
    return {thing for thing in found if not any(name in thing for name in strangers)}


def foreign(home: Path) -> set[str]:
    """Name the desks that other runs on this machine hold: by id, and local ones by folder."""
    names = {desk.name for desk in claims().values() if home not in desk.parents}
    for pid in pids():
        if (folder := LOCAL_FOLDER.search(cmdline(pid))) and parent(pid) not in (os.getpid(), 1):
            names.add(folder.group())
    return names


def claims() -> dict[int, Path]:
    """Give the user id ranges in use, and the desk each is for."""
    found = {}
    with suppress(FileNotFoundError):
        for file in uids.CLAIMS.iterdir():
            if file.name.isdigit():
                with suppress(OSError):
                    found[int(file.name)] = Path(os.readlink(file))
    return found


def loops() -> Iterator[str]:
    """Give the files loop devices show."""
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            yield f"{entry.parts[3]} {entry.read_text().strip()}"


def cgroups() -> Iterator[Path]:
    """Give the cgroups of desks in every hierarchy."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith(("cgroup ", "cgroup2 ")):
            yield from Path(left.split()[4]).glob("hotdesk-*")


def processes(home: Path, strangers: set[str]) -> Iterator[int]:
    """Give the processes of our desks: keepers, doors, runtimes, guests and what they started; and our own zombies."""
    for pid in pids():
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            uid = int(status.partition("Uid:")[2].split()[1])
            if uid in (uids.DOOR, uids.KEYS, uids.RESOLVER, uids.READER):
                if is_ours(pid, home):
                    yield pid
            elif uids.FIRST <= uid < LAST_UID:
                desk = claims().get((uid - uids.FIRST) // uids.WIDTH)
                if desk is None or home in desk.parents:  # a range is claimed before and after its processes
                    yield pid
            elif "State:\tZ" in status:
                if parent(pid) == os.getpid():
                    yield pid
            elif f"{home}/" in cmdline(pid) or is_local(pid, strangers):
                yield pid


def is_ours(pid: int, home: Path) -> bool:
    """Say whether a door or keys, or the one child either has, belongs to a keeper of ours, or to nobody any more."""
    ours = keepers(home)
    return parent(pid) in (1, *ours) or parent(parent(pid)) in ours


def is_local(pid: int, strangers: set[str]) -> bool:
    """Say whether a process is a guest without a wall, or was started by one."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    folder = LOCAL_FOLDER.search(cmdline(pid)) or (
        LOCAL_FOLDER.search(environment) if "HOTDESK_PROCESS=" in environment else None
    )
    return folder is not None and folder.group() not in strangers


def keepers(home: Path) -> list[int]:
    """Give the keepers of a state directory that run."""
    return [pid for pid in pids() if "keeper.main()" in (line := cmdline(pid)) and f"{home}/" in line]


def namespaces(pid: int) -> Iterator[str]:
    """Give the namespaces a process lives in or holds open, but for those it shares with us."""
    ours = {os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "user")}
    with suppress(OSError):
        links = [*Path(f"/proc/{pid}/fd").iterdir(), *(Path(f"/proc/{pid}/ns/{kind}") for kind in ("net", "user"))]
        for link in links:
            with suppress(OSError):
                name = os.readlink(link)
                if name.startswith(("net:[", "user:[")) and name not in ours:
                    yield name


def pids() -> list[int]:
    """List every process but ourselves."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def cmdline(pid: int) -> str:
    """Give a process's arguments, nothing when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def parent(pid: int) -> int:
    """Give a process's parent, 0 when it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def pool_left(home: Path) -> list[str]:
    """List the layers left in a session's pool, mounted for that where nobody else sees it."""
    pool = home / "lib/pool.btrfs"
    if not pool.exists():
        return []
    mounted = home / "look"
    argv = [sys.executable, "-c", LIST_POOL, str(pool), str(mounted)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
    settle(lambda: {name for name in loops() if f"{home}/" in name})
    return done.stdout.split()
