"""A cluster for tests: two nodes and a server as separate processes on loopback, each with its own state directory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from hotdesk.api.keys import ApiKeys
from hotdesk.cluster.certificates import ANY_NODE, enroll
from tests.conftest import settings_in
from tests.e2e.conftest import PROGRAM, environment
from tests.ordinary_user import UID, OrdinaryUser
from tests.stall_watch import WATCHED, require_no_stalls

PATIENCE = 120.0


@dataclass(slots=True)
class NodeProcess:
    """A running node agent."""

    name: str
    address: str
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(slots=True)
class ServerProcess:
    """A running server."""

    url: str
    key: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def e2b(self) -> dict[str, Any]:
        """Return the SDK options that make an E2B program use this server."""
        return {"api_key": self.key, "api_url": self.url, "sandbox_url": self.url}

    def wait_for_nodes(self, count: int) -> None:
        """Wait until so many nodes accept desks; the server is ready with the first."""
        end = time.monotonic() + PATIENCE
        line = f'hotdesk_nodes{{state="open"}} {count}'
        while line not in httpx.get(f"{self.url}/metrics", headers={"X-API-Key": self.key}).text.splitlines():
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)


@dataclass(slots=True)
class ClusterRoom:
    """A cluster's folder, with a state directory for each of its machines."""

    folder: Path
    nodes: dict[str, NodeProcess] = field(default_factory=dict)

    def identity(self, role: Any, name: str) -> Path:
        place = self.folder / "identities" / f"{role}-{name.replace(ANY_NODE, 'pool')}"
        if not place.exists():
            enroll(self.folder / "authority", role, name, place, 30)
        return place

    def environment(self, name: str) -> dict[str, str]:
        settings = settings_in(self.folder / name)
        source = {key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ}
        return {**environment(settings), **source, "HOTDESK_MEMORY_FLOOR": "64M"}

    def start_node(self, name: str, *options: str, pool: bool = False) -> NodeProcess:
        """Start a node's agent, and wait until it listens."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        identity = self.identity("node", ANY_NODE if pool else name)
        log = place / f"node-{time.monotonic_ns()}.log"
        argv = [PROGRAM, "node", "run", "--identity", str(identity), "--name", name, "--port", "0", *options]
        printed = log.with_suffix(".out")
        with log.open("wb") as errors, printed.open("wb") as written:
            process = subprocess.Popen(argv, stdout=written, stderr=errors, env=self.environment(name))
        end = time.monotonic() + PATIENCE
        while not (address := printed.read_text().strip()) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        assert address, log.read_text()
        self.nodes[name] = node = NodeProcess(name, address, process, log)
        return node

    @contextmanager
    def serve(
        self,
        *addresses: str,
        name: str = "home",
        config: str = "",
        end: int = signal.SIGTERM,
        variables: Mapping[str, str] = WATCHED,
    ) -> Iterator[ServerProcess]:
        """Run a server for nodes, as a user without any privilege."""
        place = self.folder / name
        (place / "etc").mkdir(parents=True, exist_ok=True)
        identity = place / "identity"
        if not identity.exists():
            shutil.copytree(self.identity("server", name), identity)
        listed = ", ".join(f'"{each}"' for each in addresses)
        text = f'[serve]\nnodes = [{listed}]\nidentity = "{identity}"\nwall = "container"\negress = "deny"\n{config}\n'
        (place / "etc/config.toml").write_text(text)
        keys = ApiKeys(settings_in(place).lib / "serve")
        key = keys.make("test")
        subprocess.run(["chown", "-R", f"{UID}:{UID}", str(place)], check=True)
        log = place / f"serve-{time.monotonic_ns()}.log"
        user = OrdinaryUser(place / f"user-{time.monotonic_ns()}", variables={**self.environment(name), **variables})
        user.folder.mkdir()
        user.prepare()
        del user.variables["PATH"], user.variables["HOME"]
        user.variables.pop("PYTHONPATH", None)
        with log.open("wb") as written:
            process = subprocess.Popen(user.command("serve", "--port", "0"), stderr=written, env=user.environment)
        try:
            yield ServerProcess(_wait(process, log), key, process, log)
        finally:
            if process.poll() is None:
                process.send_signal(end)
            process.wait(PATIENCE)
            require_no_stalls(log)

    def close(self) -> None:
        for node in self.nodes.values():
            for _ in range(2):
                with suppress(ProcessLookupError):
                    node.process.terminate()
                    time.sleep(0.2)
        for node in self.nodes.values():
            node.process.wait(PATIENCE)


def _wait(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until a server is ready to open desks; return its address."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        url = log.read_text().partition("\n")[0]
        with suppress(httpx.TransportError):
            if url.startswith("http") and httpx.get(f"{url}/ready", timeout=5).status_code == 200:
                return url
        time.sleep(0.05)
    raise AssertionError(f"the server is not ready: {log.read_text()}")
