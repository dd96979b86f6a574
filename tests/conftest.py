"""Fixtures of all tests: one event loop, separate settings, and a check that each test leaves nothing behind."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from hotdesk.brain.models import allowed
from hotdesk.config import Config
from hotdesk.desk.wall.local.runtime import SWITCH
from tests.leftovers import keepers, loops, settle, things
from tests.origins import ORIGINS, WALL_SAMPLE, WALLED, Origin, turn

RUNSC = os.environ.get("HOTDESK_GVISOR_PROGRAM", "runsc")
PLACEHOLDER = re.compile(r"otdesk.{1,3}secret|Basic [A-Za-z0-9+/]{60}")
LIST_POOL = """
import sys
from pathlib import Path
from hotdesk.desk.room import disk
from hotdesk.linux import syscalls as kernel
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
pool = disk.Btrfs(Path(sys.argv[1]), Path(sys.argv[2]))
pool.mount()
print(*pool.list_leftovers())
"""

# On a busy machine operations take longer, so no test fails because of elapsed time.
hypothesis.settings.register_profile("hotdesk", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("hotdesk")
os.environ[SWITCH] = "1"
os.environ[allowed.SWITCH] = "1"
os.environ["HOTDESK_LINGER"] = "0.5"  # a test leaves no holder behind


def pytest_addoption(parser: pytest.Parser) -> None:
    names = ",".join([*ORIGINS, *WALLED])
    parser.addoption("--origins", help=f"run every test on desks of these origins, or behind these walls: {names}")


def pytest_configure() -> None:
    """Disable the garbage collector while tests are collected: it finds nothing, and takes a fifth of the time.

    Programs inherit ignored signals, and a job of a shell script (`make test &`) ignores SIGINT, which tests send.
    """
    gc.disable()
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Enable garbage collection for the run, without scanning the collected tests again."""
    gc.freeze()
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise a test over the origins of its desks; most are `long`, and `opened` is hidden in the test's id.

    A test with `behind` instead of `origin` runs behind every wall, on opened desks only.
    """
    fixture = next((name for name in ("origin", "behind") if name in metafunc.fixturenames), None)
    if fixture is None:
        return
    asked = metafunc.config.getoption("origins")
    first = pytest.param("opened", id=pytest.HIDDEN_PARAM)
    others = ORIGINS if fixture == "origin" else ()
    cases = {name: pytest.param(name, marks=pytest.mark.long) for name in others} | {"opened": first}
    if fixture == "origin" and (soon := turn(metafunc.function)) is not None:
        cases[soon] = pytest.param(soon)
    cases |= walled_cases(metafunc)
    if asked:
        cases = {name: choose_case(name, cases) for name in asked.split(",") if name in cases}
    metafunc.parametrize(fixture, list(cases.values()), indirect=True, scope="module")


def walled_cases(metafunc: pytest.Metafunc) -> dict[str, Any]:
    """Return the cases that run a security test behind other walls; all but a sample are `long`.

    Empty for a test file that is about one wall, or that lists its own as `WALLS`.
    """
    folder, marks = Path(str(metafunc.module.__file__)).parent.name, getattr(metafunc.module, "pytestmark", [])
    named = {mark.name for mark in (marks if isinstance(marks, list) else [marks])}
    if folder != "security" or named & WALLED.keys() or hasattr(metafunc.module, "WALLS"):
        return {}
    wall_marks = [pytest.mark.gvisor, *([] if metafunc.function.__name__ in WALL_SAMPLE else [pytest.mark.long])]
    return {name: pytest.param(name, marks=wall_marks) for name in WALLED}


def choose_case(name: str, cases: dict[str, Any]) -> Any:
    """Return the case of an origin requested by `--origins`, without its `long` mark."""
    if name == "opened":
        return cases[name]
    return pytest.param(name, marks=[mark for mark in cases[name].marks if mark.name != "long"])


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Use the argument's name as the id of a case with a placeholder, which is random: xdist's workers must agree."""
    told = val.decode("utf-8", "replace") if isinstance(val, bytes) else val
    return argname if isinstance(told, str) and PLACEHOLDER.search(told) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `long` the tests of virtual machines (up to a minute to boot without KVM) and cases beyond a sample."""
    cases: Counter[str] = Counter()
    for item in items:
        sample = item.get_closest_marker("sample")
        if item.get_closest_marker("microvm") is not None:
            item.add_marker(pytest.mark.long)
        elif sample is not None and item.get_closest_marker("long") is None:
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] > sample.args[0]:
                item.add_marker(pytest.mark.long)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail, rather than skip, a test whose requirements this machine lacks: a skipped test proves nothing."""
    if item.get_closest_marker("container") is None:
        return
    if os.geteuid() != 0:
        pytest.fail("opening a desk needs root: run the tests with sudo", pytrace=False)
    if shutil.which("crun") is None:
        pytest.fail("crun is not installed: apt-get install crun", pytrace=False)
    if item.get_closest_marker("gvisor") is not None and shutil.which(RUNSC) is None:
        pytest.fail("runsc is not installed: hotdesk setup --wall gvisor", pytrace=False)
    if item.get_closest_marker("microvm") is not None and not (images() / "images/vmm.json").exists():
        pytest.fail("there is no image vmm: hotdesk setup --wall microvm", pytrace=False)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def origin(request: pytest.FixtureRequest) -> Origin:
    return {**ORIGINS, **WALLED}[request.param]


@pytest.fixture(scope="module")
def behind(request: pytest.FixtureRequest) -> Origin:
    """Return the wall to open desks behind, for tests that would show nothing new on desks of other origins."""
    return {**ORIGINS, **WALLED}[request.param]


@pytest.fixture(scope="session", autouse=True)
def home() -> Iterator[Path]:
    with state_directory() as folder:
        if "PYTEST_XDIST_WORKER" in os.environ:  # desks without a wall that belong to other xdist workers are not ours
            (folder / "tmp").mkdir(mode=0o1777)
            tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
        yield folder


@contextmanager
def state_directory() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hotdesk-test-", dir="/tmp"))
    folder.chmod(0o755)
    before = things(folder)
    try:
        yield folder
    finally:
        left = {f"layer {name} in the pool" for name in pool_left(folder)}
        left |= settle(lambda: things(folder) - before)
        shutil.rmtree(folder)
    assert not left, "left after the session:\n" + "\n".join(sorted(left))


@pytest.fixture(scope="session")
def settings(home: Path) -> Config:
    return settings_in(home)


def settings_in(folder: Path) -> Config:
    """Return settings with a separate state directory, for desks that are shared by several tests and change."""
    return Config(run=folder / "run", lib=folder / "lib", images=images(), gvisor_program=RUNSC)


def images() -> Path:
    return Path(os.environ.get("HOTDESK_IMAGES") or "/var/lib/hotdesk/images")


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest, home: Path) -> Iterator[None]:
    if "settings" not in request.fixturenames:
        yield
        return
    before = things(home)
    yield
    left = settle(lambda: {thing for thing in things(home) - before if not is_shared(thing, home)})
    assert not left, "left after the test:\n" + "\n".join(sorted(left))


def is_shared(thing: str, home: Path) -> bool:
    """Return whether a thing may stay: a runtime that tests share mounts its pool and starts processes when needed.

    These are its door, its keys process and readers kept ready; they must be gone at the end of the session.
    """
    is_part = thing.startswith("process") and "set_title(sys.argv[2])" in thing
    return (thing.startswith("loop") or is_part) and bool(keepers(home))


def pool_left(home: Path) -> list[str]:
    """List the layers left in a session's pool, which is mounted in a private mount namespace to read it."""
    pool = home / "lib/pool.btrfs"
    if not pool.exists():
        return []
    mounted = home / "look"
    argv = [sys.executable, "-c", LIST_POOL, str(pool), str(mounted)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
    settle(lambda: {name for name in loops() if f"{home}/" in name})
    return done.stdout.split()
