"""A job's own cost: an act without model and tool, the time until a job acts, and the memory of a long job."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from bench.book import Book

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.seam import ModelRequest, Reply, TokenUsage
from hotdesk.brain.seam import PlanningTask
from hotdesk.brief import CLOSED, Scope, parse_rule
from hotdesk.brief.brief import Brief
from hotdesk.config import Config
from hotdesk.desk.image.description import ImageFacts
from hotdesk.desk.seam import Desk, DeskId, Spec
from hotdesk.drive.table import FILE, connect, reading, set_up
from hotdesk.event import Acted, Decided, Event, Note
from hotdesk.hands.toolbox import Free, Toolbox, WheelState
from hotdesk.host import Host
from hotdesk.plan import Plan, Step
from hotdesk.tool import Arguments, Call, Observation, Parameter, Tool, Vision
from hotdesk.walls import WallCatalog
from hotdesk.work import JobContext, work

ACTS, LONG = 200, 500
WARMED = 100
"""Acts of the long job after which its memory is first measured."""
SEEN = 4096
"""Bytes of an observation of the long job."""
WINDOW = 32_000
"""Context tokens of its model: the conversation is shortened again and again."""
ACT, COMMIT = "worker: an act, beside model and tool", "worker: one SQLite commit, FULL, meanwhile"
BEYOND = "worker: ms an act takes beyond two commits"
BUSY = "worker: CPU ms of the owner an act takes, tool included"
FIRST, FIRST_SCOPED = "worker: approved → first act, pool warm", "worker: approved → first act, pool warm, with a scope"
GREW, HELD = f"worker: MiB more at act {LONG} than at {WARMED}", f"worker: MiB at act {LONG}"
JOURNAL, TURN = "worker: KiB of journal an act", "worker: s of a job of 500 acts"
LOOK = Tool("look", "Look at something.", (Parameter("place", "integer", "where"),), {"place": 1})
SCOPE = Scope(rules=(parse_rule("GET bench.example.test"),))


@dataclass(slots=True)
class Hand:
    """A tool that does almost nothing at a real desk, and measures how long that takes."""

    desk: Desk
    size: int
    took: list[float]
    tools: Sequence[Tool] = (LOOK,)

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        """Run `true`, and return a long text."""
        began = time.perf_counter()
        done = await self.desk.run(["true"])
        self.took.append(time.perf_counter() - began)
        line = f"{arguments['place']}: " + "what a desk might say of itself "
        return Observation((line * (self.size // len(line) + 1))[: self.size], ok=done.ok)


@dataclass(slots=True)
class Machine:
    """A host whose desks have one tool."""

    host: Host
    size: int = 100
    took: list[float] = field(default_factory=list)

    @property
    def config(self) -> Config:
        return self.host.config

    @property
    def walls(self) -> WallCatalog:
        return self.host.walls

    def get_image_facts(self, name: str) -> ImageFacts:
        return self.host.get_image_facts(name)

    async def prepare(self) -> None:
        await self.host.prepare()

    def note(self, *events: Event) -> None:
        self.host.note(*events)

    def certify(self, claim: Mapping[str, object]) -> bytes:
        return self.host.certify(claim)

    def certify_swarm(self, swarm: str) -> bytes:
        return self.host.certify_swarm(swarm)

    def find_secrets(self, data: bytes, scope: Scope) -> tuple[str, ...]:
        return self.host.find_secrets(data, scope)

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        return await self.host.open(spec, scope)

    async def burn(self, desk: DeskId) -> None:
        await self.host.burn(desk)

    def has(self, desk: DeskId) -> bool:
        return self.host.has(desk)

    def get_wheel(self, desk: Desk) -> WheelState:
        return self.host.get_wheel(desk)

    async def enter_step(self, desk: DeskId, step: str) -> None:
        await self.host.enter_step(desk, step)

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        await self.host.allow(desk, rules, by)

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        return await self.host.try_grants(scope)

    def leave(self, desk: DeskId) -> None:
        self.host.leave(desk)

    def list_worker_tools(self, image: str, vision: Vision | None = None, *, exact: bool = False) -> Sequence[Tool]:
        return (LOOK,)

    async def hands(
        self, desk: Desk, vision: Vision | None = None, note: Note | None = None, *, exact: bool = False
    ) -> Toolbox:
        """Return the one tool, recorded like any other."""
        return Toolbox([Hand(desk, self.size, self.took)], note or self.note, Free(), desk.id)


@dataclass(slots=True)
class Actor:
    """A model that takes no time: it plans one step, looks a number of times, and finishes."""

    acts: int
    window: int = 10_000_000
    each: Callable[[int], None] = lambda act: None
    """Called before each act; its duration counts as the model's."""
    asked: int = 0
    left: float = 0.0
    gaps: list[float] = field(default_factory=list)
    """Seconds between two requests to the model."""
    name: str = "bench"
    native_screen: bool = False
    sees: bool = True

    def provide_plan(self, task: PlanningTask) -> Plan:
        return Plan((Step("look", "Look so often."),))

    async def ask(self, request: ModelRequest) -> Reply:
        """Return the next call of the tool."""
        if self.asked:
            self.gaps.append(time.perf_counter() - self.left)
        self.each(self.asked)
        self.asked += 1
        call = Call(f"call{self.asked}", "look", {"place": self.asked})
        if self.asked > self.acts:
            call = Call("last", "finish", {"summary": "looked"})
        self.left = time.perf_counter()
        usage = TokenUsage(1200, 80, 9000, 0, 40_960, 0.01)
        return Reply("I look at the next place.", "", (call,), "calls", usage, self.name)

    async def close(self) -> None:
        """Have nothing to close."""


async def carry_out(machine: Machine, actor: Actor, scope: Scope = CLOSED, heard: Note = lambda *_: None) -> str:
    """Carry out a job of one step; return its id."""
    job = Brief("Look around.", (), machine.config.lib, "0" * 64, scope=scope, seconds=3600)
    order = JobContext(machine, job, listener=heard)
    receipt = await work(order, ModelBrain(job, [actor], [actor]))
    if receipt.outcome != "done":
        raise RuntimeError(f"the job ended as {receipt.outcome}: {receipt.why}")
    return order.id


@contextmanager
def commits(path: Path, took: list[float]) -> Iterator[Callable[[int], None]]:
    """Yield a function that times one commit of one row on the journal's file system, and appends to `took`."""
    path.touch()
    with closing(connect(path)) as db:
        set_up(db)
        db.execute("CREATE TABLE rows (data TEXT)")

        def commit(act: int) -> None:
            began = time.perf_counter()
            db.execute("INSERT INTO rows VALUES (?)", ("x" * 500,))
            took.append(time.perf_counter() - began)

        yield commit


async def acts(host: Host, book: Book, number: int) -> None:
    """Time each act of a job, and a commit between two of them."""
    machine, took = Machine(host), list[float]()
    host.config.lib.mkdir(parents=True, exist_ok=True)
    path = host.config.lib / f"commits-{number}.db"
    with commits(path, took) as commit:
        actor = Actor(ACTS, each=commit)
        busy = time.process_time()
        await carry_out(machine, actor)
        book.facts[BUSY] = (time.process_time() - busy) / ACTS * 1000
    own = [gap - tool for gap, tool in zip(actor.gaps, machine.took, strict=True)]
    book.note(ACT, number, *own)
    book.note(COMMIT, number, *took)
    path.unlink()


async def first(host: Host, book: Book, number: int, scope: Scope, name: str) -> None:
    """Time from a plan's approval to the first act, with ready desks."""
    at: dict[type[Event], float] = {}

    def heard(*events: Event) -> None:
        for event in events:
            at.setdefault(type(event), time.perf_counter())

    await host.pool.wait_until_full()
    await anyio.sleep(0.3)
    await carry_out(Machine(host), Actor(1), scope, heard)
    book.note(name, number, at[Acted] - at[Decided])


async def long(host: Host, book: Book) -> None:
    """Measure a long job's memory, and its part of the journal."""
    machine, memory, began = Machine(host, SEEN), dict[int, float](), time.perf_counter()
    journal = host.config.lib / "keys" / FILE

    def look(act: int) -> None:
        memory[act] = resident()

    before = size_of(journal)
    await carry_out(machine, Actor(LONG, WINDOW, look))
    book.facts[JOURNAL] = (size_of(journal) - before) / LONG / 1024
    book.facts[GREW] = statistics.median(memory[act] for act in range(LONG - 9, LONG + 1)) - memory[WARMED]
    book.facts[HELD] = memory[LONG]
    book.facts[TURN] = time.perf_counter() - began


def resident() -> float:
    """Return this process's memory in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def size_of(journal: Path) -> int:
    """Return the bytes of a journal, including its write-ahead log."""
    with reading(journal) as db:
        (pages,), (size,) = db.execute("PRAGMA page_count").fetchone(), db.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(size)


async def measure(host: Host, book: Book, rounds: int) -> None:
    """Measure everything; the first round only warms caches."""
    for number in range(-1, 3):
        await acts(host, book if number >= 0 else Book(), number)
    book.facts[BEYOND] = 1000 * (statistics.median(book.samples(ACT)) - 2 * statistics.median(book.samples(COMMIT)))
    await long(host, book)
    host.keep_ready(Spec(), 2)
    host.keep_ready(Spec(), 1, proven=True)
    for number in range(-1, rounds):
        for scope, name in ((CLOSED, FIRST), (SCOPE, FIRST_SCOPED)):
            await first(host, book if number >= 0 else Book(), number, scope, name)
