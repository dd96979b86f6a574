"""A pod without a cluster: the program of its manifest as a process of this machine, and the agent's listener."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.pod.listener import ExpectedGuest, GuestListener
from hotdesk.desk.pod.manifest import PodOrder, PodTemplate, build_pod
from hotdesk.desk.pod.seed import build_seed
from hotdesk.desk.seam import DeskId, new_id
from hotdesk.ipc.tasks import Background, background

TEMPLATE = PodTemplate("desks", "base", python="/usr/bin/python3")


class PodRoom:
    """An agent's listener, and pods that are processes."""

    def __init__(self, listener: GuestListener, tasks: Background, gate: tuple[str, int], problems: list[str]) -> None:
        self.listener = listener
        self.tasks = tasks
        self.gate = gate
        self.problems = problems
        """Why callers were rejected."""
        self.ended: list[str] = []

    def expect(self, desk: str = "") -> ExpectedGuest:
        desk = desk or new_id()
        return self.listener.expect(
            desk,
            lambda python: build_seed(python, {"COLOUR": "blue"}, gate=self.gate),
            lambda: self.ended.append(desk),
        )

    def build_order(self, guest: ExpectedGuest, token: str = "") -> PodOrder:
        address, certificate = self.listener.address, self.listener.certificate
        return PodOrder(guest.desk, 1, 1 << 28, 1 << 28, 60, address, token or guest.token, certificate)

    async def link(self, guest: ExpectedGuest, gate: Path | None = None) -> LinkedDesk:
        """Wait for a guest, and return its desk."""
        streams = await self.listener.wait(guest, 15)
        streams.gate = str(gate) if gate is not None else ""
        link = Link(streams.take_link())
        link.sock.setblocking(False)
        self.tasks.start(link.run)
        with anyio.fail_after(15):
            hello = await link.wait_for_hello()
        return LinkedDesk(DeskId(guest.desk), link, str(hello["home"]))


@contextmanager
def run_pod(order: PodOrder, template: PodTemplate = TEMPLATE) -> Iterator[subprocess.Popen[bytes]]:
    """Run the first program of a pod as a process in a home folder of its own, with the variables of its manifest."""
    container = build_pod(template, order)["spec"]["containers"][0]
    with tempfile.TemporaryDirectory() as home:
        env = {each["name"]: each["value"] for each in container["env"]} | {"HOME": home}
        pod = subprocess.Popen(
            container["command"], cwd=home, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield pod
        finally:
            if pod.poll() is None:
                os.killpg(pod.pid, signal.SIGKILL)
            pod.communicate()


@asynccontextmanager
async def open_pod_room() -> AsyncIterator[PodRoom]:
    problems: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as reserved:
        gate = reserved.getsockname()[:2]
        reserved.close()
        async with background() as tasks:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            listener = GuestListener(listening, address, tasks, lambda e: problems.append(str(e)))
            tasks.start(listener.serve)
            yield PodRoom(listener, tasks, gate, problems)
