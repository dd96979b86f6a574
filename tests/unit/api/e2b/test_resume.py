"""Tests of resuming sandboxes: which programs are started, and what is left of a sandbox that is not resumed."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from hotdesk.api.e2b import clock
from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.hibernate import SavedSandboxes, get_folder, read
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.quotas import Quotas
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.desk.owner.runtime import READY
from hotdesk.desk.seam import Desk, DeskId, Done, Spec
from hotdesk.errors import DeskGone, HostError

pytestmark = pytest.mark.anyio
ID, OTHER = DeskId("i" + "a" * 20), DeskId("i" + "b" * 20)
TEMPLATE = "mine"


@dataclass
class Computer:
    """A desk of a template whose programs start, or not."""

    id: DeskId = ID
    state: str = "running"
    ready: int = 0
    """The exit status of the template's start program."""
    started: int = 0
    """How often that was run."""
    answers: str = "answers"
    """Whether that answers: `waits`, or ends by `timeout`."""
    stays: bool = False
    """Whether it cannot be paused."""

    async def run(self, argv: Sequence[str], **options: object) -> Done:
        assert list(argv) == [READY]
        self.started += 1
        if self.answers == "waits":
            await anyio.sleep_forever()
        if self.answers == "timeout":
            raise TimeoutError
        return Done(self.ready, stderr=b"the ready command did not succeed")

    async def pause(self, *, memory: bool = True, keep: str = "ram") -> None:
        if self.stays:
            raise DeskGone("the keeper does not respond")
        self.state = keep if memory and self.state != "halted" else "halted"

    async def resume(self) -> None:
        self.state = "running"

    async def save(self, name: str) -> None:
        assert self.state == "halted"


@dataclass
class Machine:
    """A tenant and its machine; what is hibernated outlives its keeper."""

    lib: Path
    desk: Computer = field(default_factory=Computer)
    burnt: list[str] = field(default_factory=list)
    keeper_died: bool = False
    resists: bool = False
    """Whether its desks cannot be burnt."""
    name: str = "default"

    @property
    def host(self) -> Machine:
        return self

    @property
    def settings(self) -> SimpleNamespace:
        return SimpleNamespace(lib=self.lib, run=self.lib / "run", images=self.lib / "images")

    @property
    def quotas(self) -> Quotas:
        return Quotas()

    async def get_tenant(self, name: str) -> Machine:
        return self

    def make_host(self, settings: object, name: str) -> Machine:
        return self

    def route(self, spec: Spec) -> Spec:
        return spec

    def has_ended(self, desk: DeskId) -> bool:
        return self.keeper_died

    def list_hibernated(self, *desks: DeskId) -> None:
        """Write what the keeper does about its hibernated desks: their records, and the list of them."""
        for folder in (self.lib / "hibernated", self.lib / "run" / "hibernated"):
            folder.mkdir(parents=True, exist_ok=True)
            for desk in desks:
                (folder / f"{desk}.json").write_text(json.dumps({"id": desk}))

    async def open(self, spec: Spec, scope: object) -> Computer:
        self.desk = Computer(OTHER, ready=self.desk.ready)
        return self.desk

    async def wake(self, desk: DeskId, scope: object, spec: Spec) -> Computer:
        assert desk == self.desk.id
        assert self.desk.state == "disk"
        self.keeper_died, self.desk.state = False, "running"
        return self.desk

    async def fork(self, desk: Computer, count: int, *, memory: bool) -> list[Computer]:
        self.desk = Computer(OTHER, ready=desk.ready)
        return [self.desk]

    async def burn(self, desk: DeskId) -> None:
        if self.resists:
            raise HostError("it resists")
        self.burnt.append(desk)

    async def end(self, desk: DeskId) -> None:
        await self.burn(desk)


@dataclass
class Noted:
    """Snapshots of which none is made."""

    deleted: anyio.Event = field(default_factory=anyio.Event)

    async def expect(self, tenant: object, *images: str) -> None:
        """Record images that are about to be made."""


@asynccontextmanager
async def serving(machine: Machine) -> AsyncIterator[Sandboxes]:
    async with anyio.create_task_group() as tasks:
        sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
        sandboxes.saved = SavedSandboxes(sandboxes, cast(Any, Noted()), cast(Any, machine))
        yield sandboxes
        tasks.cancel_scope.cancel()


def sandbox_of(machine: Machine, wall: str = "gvisor", **more: Any) -> Sandbox:
    now = time.time()
    desk, spec = cast(Desk, machine.desk), Spec(image=TEMPLATE, wall=wall)
    return Sandbox(desk, cast(Any, machine), TEMPLATE, spec, CLOSED, "token", now, now + 60, **more)


async def test_programs_that_continue_after_a_server_was_killed_are_not_started_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, Computer(ready=1))
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine))
        await sandboxes.pause(sandbox, memory=True)
        machine.list_hibernated(ID)
    async with serving(machine) as sandboxes:
        assert sandboxes.saved is not None
        sandboxes.saved.find_for_tenant(cast(Any, machine))
        again = sandboxes.get("default", ID)
        assert await sandboxes.resume(again, 60)
    assert (again.state, machine.desk.state, machine.desk.started, machine.burnt) == ("running", "running", 0, [])
    assert list(read(get_folder(cast(Any, machine)))) == []


async def test_programs_that_continue_in_a_fork_are_not_started_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, Computer(ready=1))
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine))
        [fork] = await sandboxes.fork(sandbox, 1, 60)
    assert (fork.state, machine.desk.started, machine.burnt) == ("running", 0, [])


async def test_programs_of_a_fork_with_files_alone_are_started(tmp_path: Path) -> None:
    machine = Machine(tmp_path, Computer(ready=1))
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine, wall="container"))
        with pytest.raises(E2bError, match="did not start"):
            await sandboxes.fork(sandbox, 1, 60)
    assert (machine.desk.started, machine.burnt) == (1, [OTHER])


async def until_seen(sandboxes: Sandboxes) -> None:
    """Wait until the clock has looked at the sandboxes."""
    for _ in range(2):
        seen = sandboxes.soonest
        seen.set()
        with anyio.fail_after(30):
            while sandboxes.soonest is seen:
                await anyio.sleep(0.001)


@pytest.mark.parametrize("seen", [True, False])
async def test_a_sandbox_that_is_paused_on_disk_survives_its_keeper(tmp_path: Path, seen: bool) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine))
        sandboxes.tasks.start_soon(clock.run, sandboxes)
        await sandboxes.pause(sandbox, memory=True)
        machine.list_hibernated(ID)
        machine.keeper_died = True
        if seen:
            await until_seen(sandboxes)
        assert sandboxes.get("default", ID).state == "paused"
        assert await sandboxes.resume(sandbox, 60)
    assert cast(Any, sandbox.opened) is machine.desk
    assert (machine.desk.state, machine.desk.started) == ("running", 0)
    assert list(read(get_folder(cast(Any, machine)))) == []


@pytest.mark.parametrize("memory", [True, False])
async def test_a_paused_sandbox_of_which_nothing_is_on_disk_ends_with_its_keeper(tmp_path: Path, memory: bool) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine, wall="gvisor" if memory else "container"))
        sandboxes.tasks.start_soon(clock.run, sandboxes)
        await sandboxes.pause(sandbox, memory=memory)
        machine.keeper_died = True
        await until_seen(sandboxes)
        assert sandboxes.by_id == {}


async def test_a_sandbox_of_which_only_files_are_kept_is_saved_as_an_image(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine))
        await sandboxes.pause(sandbox, memory=False)
        assert sandboxes.saved is not None
        await sandboxes.saved.leave()
    [record] = read(get_folder(cast(Any, machine)))
    assert (record.desk, record.image) == ("", sandbox.saved_image)


@pytest.mark.parametrize("how", ["answers", "timeout", "waits"])
async def test_a_sandbox_whose_programs_do_not_start_again_stays_paused(tmp_path: Path, how: str) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine, wall="container"))
        await sandboxes.pause(sandbox, memory=False)
        machine.desk.ready, machine.desk.answers = 1, how
        with anyio.move_on_after(0.01 if how == "waits" else 10) as waiting:
            with pytest.raises(E2bError, match="did not start"):
                await sandboxes.resume(sandbox, 60)
        assert waiting.cancelled_caught == (how == "waits")
        assert (sandbox.state, sandbox.pause_mode, machine.desk.state) == ("paused", "filesystem", "halted")
        machine.desk.ready, machine.desk.answers = 0, "answers"
        assert await sandboxes.resume(sandbox, 60)
    assert (sandbox.state, machine.desk.state, machine.desk.started) == ("running", "running", 2)


async def test_a_sandbox_whose_memory_is_given_up_is_no_longer_recorded_as_hibernated(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine))
        await sandboxes.pause(sandbox, memory=True)
        machine.desk.ready = 1
        with pytest.raises(E2bError, match="did not start"):
            await sandboxes.resume(sandbox, 60, memory=False)
        assert (sandbox.state, sandbox.pause_mode, machine.desk.state) == ("paused", "filesystem", "halted")
        assert list(read(get_folder(cast(Any, machine)))) == []


async def test_a_sandbox_that_is_neither_resumed_nor_paused_again_counts_as_running(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine, wall="container"))
        await sandboxes.pause(sandbox, memory=False)
        machine.desk.ready, machine.desk.stays = 1, True
        with pytest.raises(E2bError, match="did not start"):
            await sandboxes.resume(sandbox, 60)
    assert (sandbox.state, machine.desk.state) == ("running", "running")
    assert 0 < sandbox.ends - time.time() <= 60


async def test_a_sandbox_that_is_just_being_paused_on_disk_survives_its_keeper(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine))
        sandboxes.tasks.start_soon(clock.run, sandboxes)
        async with sandbox.turning:
            machine.keeper_died = True
            await until_seen(sandboxes)
            sandbox.state = "paused"
            assert sandboxes.saved is not None
            await sandboxes.saved.note_pause(sandbox)
            machine.list_hibernated(ID)
        await until_seen(sandboxes)
        assert sandboxes.get("default", ID) is sandbox
        assert sandbox.opened is None
