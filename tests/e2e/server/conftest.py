"""Fixtures that run a real `hotdesk serve` in a separate process, for clients of other projects."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from hotdesk.api.keys import ApiKeys
from hotdesk.config import Config, load
from hotdesk.desk.image import store
from hotdesk.errors import ImageError
from tests.conftest import settings_in, state_directory
from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server.chromium import Seen, chromium, opened
from tests.stall_watch import WATCHED, require_no_stalls

PATIENCE = 90


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    url: str
    key: str
    settings: Config
    process: subprocess.Popen[bytes]
    log: Path
    """File with its output."""

    @property
    def e2b(self) -> dict[str, Any]:
        """Return the SDK options that make an E2B program use this server."""
        return {"api_key": self.key, "api_url": self.url, "sandbox_url": self.url}


GVISOR_FAILURES: dict[str, str] = {
    "test_metadata_of_a_file_stays_until_it_is_written_again": "its files have no extended attributes",
    "test_async_files_have_every_operation": "its files have no extended attributes",
    "test_a_search_for_windows_does_not_fail_while_others_open_and_close": (
        "it depends on how soon many programs start: behind gVisor not within the time that the SDK waits"
    ),
    "test_if_one_fork_cannot_start_none_is_left": "a fork goes on with its memory: nothing in it begins anew",
    "test_metadata_of_a_file_is_limited": "its files have no extended attributes: it depends on what is noted",
}
"""Tests of E2B's programs that cannot pass behind gVisor, and why. Each still runs, and must fail."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In the long run, run the tests of E2B's programs behind gVisor, too, unless they have a server of their own."""
    name = metafunc.module.__name__.rpartition(".")[2]
    if "server" not in metafunc.fixturenames or hasattr(metafunc.module, "server") or not name.startswith("test_e2b_"):
        return
    marks = [pytest.mark.long, pytest.mark.gvisor, pytest.mark.container]
    if reason := GVISOR_FAILURES.get(metafunc.function.__name__):
        marks.append(pytest.mark.xfail(reason=reason, strict="depends" not in reason))
    walls = [pytest.param("container", id=pytest.HIDDEN_PARAM), pytest.param("gvisor", marks=marks)]
    metafunc.parametrize("server", walls, indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    """Yield a server that the test files share; noVNC is installed.

    Its state directory is separate from the session's, because it opens and burns desks while other tests check what
    left behind.
    """
    wall = getattr(request, "param", "container")
    with state_directory() as folder, served(folder / "serve", wall=wall) as found:
        (found.settings.lib / "viewer").symlink_to(load().lib / "viewer")
        yield found


@pytest.fixture(scope="module")
def own_server() -> Iterator[Served]:
    """Yield a server for one test file, for tests that inspect everything a server has.

    Its state directory is separate from the session's, because it opens ready desks while other tests check what they
    left behind.
    """
    with state_directory() as folder, served(folder / "serve") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run a browser. Its library runs an event loop in this thread, so it must end before other files run theirs."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def seen(server: Served, browser: Browser) -> Iterator[Seen]:
    """Yield a page on which a person signed in at the server of the test file."""
    with opened(browser) as made:
        made.sign_in(server)
        yield made


@contextmanager
def served(
    folder: Path,
    *options: str,
    config: str = "",
    through: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    wall: str = "container",
) -> Iterator[Served]:
    """Run a server with options, settings and variables, started by the command `through`; stop it at the end.

    Its tenants share a wall as if they trusted each other, unless its settings name a wall.
    """
    folder.mkdir(mode=0o755)
    (folder / "etc").mkdir()
    (folder / "etc/config.toml").write_text(config if "wall" in config else add_wall(config, wall))
    settings = settings_in(folder)
    key = ApiKeys(settings.lib / "serve").make("test")
    log = folder / "serve.log"
    source = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}  # a modified copy of src
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*through, PROGRAM, "serve", "--port", "0", *options], stderr=written,
            env={**environment(settings), **source, **WATCHED, **(env or {})},
        )  # fmt: skip
    url = ""
    try:
        url = wait(process, log)
        yield Served(url, key, settings, process, log)
    finally:
        left = remove_snapshots(url, key) if process.poll() is None else []
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        remove_template_images(settings)
        require_no_stalls(log)
        assert not left, f"snapshots stay in the machine's own images: {left}"


def add_wall(config: str, wall: str) -> str:
    heading, line = "[serve]\n", f'wall = "{wall}"\n'
    return config.replace(heading, heading + line, 1) if heading in config else f"{config}\n{heading}{line}"


def remove_snapshots(url: str, key: str) -> list[str]:
    headers = {"X-API-Key": key}
    left: list[str] = []
    with suppress(httpx.TransportError), httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
        listed = client.get("/snapshots")  # a test may have revoked the key, or ended the server
        for each in listed.json() if listed.status_code == 200 else []:
            name = str(each["snapshotID"])
            if client.delete(f"/templates/{name}").status_code >= 400:
                left.append(name)
    return left


def remove_template_images(settings: Config) -> None:
    for file in [settings.lib / "serve/templates.json", *settings.lib.glob("tenants/*/serve/templates.json")]:
        records = json.loads(file.read_bytes()) if file.exists() else {"layers": []}
        for name in {str(each["image"]) for each in records["layers"]}:
            with suppress(ImageError):
                store.rm(settings.images, name)


def wait(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until a server answers; return its address."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        url = log.read_text().partition("\n")[0]
        try:
            if url.startswith("http") and httpx.get(f"{url}/health", timeout=5).status_code < 500:
                return url
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail(f"the server does not answer: {log.read_text()}")
