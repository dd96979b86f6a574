"""Verifies the deliverables of many items in clean desks, in batches.

A clean desk is never one that was used for work. Within a batch, each item's files are checked by a process of their
own. A batch fails if a check does not end, leaves a process behind or tries to send. Then its desk is burnt and each of
its items is checked again in a desk of its own, so that no item is blamed for another. Behind a wall whose programs the
host cannot count, no clean desk is used for a second item.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import field, replace
from pathlib import PurePosixPath

import anyio

from hotdesk.brief.brief import Brief, Deliverable, locate_input
from hotdesk.checks import find, require_distinct_inputs
from hotdesk.checks.batch import BatchedCheck, LookRequest, is_cut, look_many
from hotdesk.checks.required import list_checks
from hotdesk.checks.seam import Check, Evidence
from hotdesk.checks.verdict_json import StoredVerdict
from hotdesk.dataclass import dataclass
from hotdesk.drive.swarm_certificate import MOST_SHARED
from hotdesk.errors import BriefError, DeskError, NodeLost
from hotdesk.job.desks import BESIDE, Desks
from hotdesk.job.error_text import describe_error
from hotdesk.job.machine import Machine
from hotdesk.job.verify import BASE, OFFICE, Candidate, CleanDesk, judge_evidence
from hotdesk.swarm.items import Item
from hotdesk.swarm.worker import ignore_events
from hotdesk.walls import NOMINAL_CATALOG

BATCH = 50
"""Maximum number of items that are checked together."""
MIN_LINGER_S, MAX_LINGER_S = 0.5, 4.0
"""Seconds that an incomplete batch waits: the first results come soon, later batches are larger."""


@dataclass(frozen=True, slots=True)
class RequiredLook:
    """One check that every item's deliverable must pass."""

    name: str
    expect: Mapping[str, object]
    check: Check


@dataclass(slots=True)
class VerifyRequest:
    """One item whose deliverables are to be verified."""

    item: Item
    candidates: list[Candidate]
    done: anyio.Event = field(default_factory=anyio.Event)
    clean: str = ""
    """The id of the clean desk that was used."""
    is_cut: bool = False
    """Whether an inspection in a batch reached a limit, so that the item is checked again alone."""

    def refuse(self, why: str) -> None:
        """Mark every deliverable as not verifiable, for the reason `why`."""
        self.candidates = [replace(each, lacks=why) for each in self.candidates]


@dataclass(frozen=True, slots=True)
class ItemLook:
    """One check of one deliverable of one item."""

    request: VerifyRequest
    place: int
    """The index of the deliverable."""
    required: RequiredLook


@dataclass(slots=True)
class ItemVerifier:
    """Verifies what items delivered. `run` works until cancelled; `verify` waits for one item's result."""

    machine: Machine
    brief: Brief
    desks: Desks
    checks: tuple[tuple[RequiredLook, ...], ...]
    """The checks of each deliverable, in the order of the brief."""
    waiting: deque[VerifyRequest] = field(default_factory=deque)
    arrived: anyio.Event = field(default_factory=anyio.Event)
    expected: int = 0
    """Number of items in progress, which will need verification soon."""
    clean: CleanDesk | None = None
    uses: int = 0
    """Number of items that were checked in the current clean desk."""
    opened: list[str] = field(default_factory=list)
    linger: float = MIN_LINGER_S

    @classmethod
    def make(cls, machine: Machine, brief: Brief, job: str) -> ItemVerifier:
        """Make the verifier of a swarm; raise `BriefError` if a check cannot be done for many items."""
        checks = tuple(_require_checks(item) for item in brief.deliverables)
        require_distinct_inputs(name for each in checks for look in each for name in look.check.beside)
        return cls(machine, brief, Desks(machine, brief, job, ignore_events, brief.seconds), checks)

    @property
    def max_shared(self) -> int:
        """Return how many items one clean desk may check: more than one only where the host counts its programs.

        Elsewhere a process that one item's file left behind could forge the evidence of the next.
        """
        traits = NOMINAL_CATALOG.find(self.brief.verify_wall or self.brief.wall).traits
        return MOST_SHARED if traits.counts_programs or not traits.is_boundary else 1

    @property
    def image(self) -> str:
        return BASE if all(look.check.image == BASE for each in self.checks for look in each) else OFFICE

    async def verify(self, item: Item, candidates: list[Candidate]) -> VerifyRequest:
        """Verify an item's deliverables; return the request with the verdicts."""
        request = VerifyRequest(item, candidates)
        self.waiting.append(request)
        self.wake()
        await request.done.wait()
        return request

    def wake(self) -> None:
        self.arrived.set()

    async def run(self) -> None:
        """Verify waiting items in batches, until cancelled."""
        try:
            async with AsyncExitStack() as stack:
                while True:
                    await self.gather_batch()
                    batch = [self.waiting.popleft() for _ in range(min(BATCH, self.max_shared, len(self.waiting)))]
                    await self.look_at(batch, stack)
        finally:
            self.clean = None  # the exit stack has burnt it

    async def gather_batch(self) -> None:
        """Wait until a batch is complete, or no more items are expected soon."""
        while not self.waiting:
            self.arrived = anyio.Event()
            await self.arrived.wait()
        with anyio.move_on_after(self.linger):
            while len(self.waiting) < min(BATCH, self.max_shared, len(self.waiting) + self.expected):
                self.arrived = anyio.Event()
                await self.arrived.wait()
        self.linger = min(2 * self.linger, MAX_LINGER_S)

    async def look_at(self, batch: Sequence[VerifyRequest], stack: AsyncExitStack) -> None:
        """Check a batch; if anything goes wrong, check each of its items alone, in a desk of its own.

        Items for which the limits of a batch are too small are checked again alone, too.
        """
        if not await self.survive(batch, stack):
            await self.leave()
            for request in batch:
                await self.survive([request], stack, is_last=True)
                request.done.set()
                await self.leave()
        cut = [each for each in batch if each.is_cut]
        for request in batch:
            if not request.is_cut:  # it does not wait for the others
                request.done.set()
        for request in cut:
            if not await self.survive([request], stack, is_last=True):
                await self.leave()
            request.done.set()

    async def survive(self, batch: Sequence[VerifyRequest], stack: AsyncExitStack, *, is_last: bool = False) -> bool:
        """Check a batch; return whether the result is valid. A clean desk that fails was broken by one of the items."""
        while True:
            try:
                at = await self.enter(len(batch), stack)
                break
            except NodeLost:
                await self.leave()
        try:
            return await self.try_batch(batch, at, is_last=is_last)
        except NodeLost:  # the desk's node was lost, which is not the items' fault
            await self.leave()
            return await self.survive(batch, stack, is_last=is_last)
        except DeskError:
            for request in batch if is_last else ():
                request.refuse("the clean desk that checked the item failed")
            return False

    async def enter(self, count: int, stack: AsyncExitStack) -> CleanDesk:
        if self.clean is not None and self.uses + count > self.max_shared:
            await self.leave()
        if self.clean is None:
            own = await stack.enter_async_context(AsyncExitStack())
            desk = await own.enter_async_context(self.desks.sterile(self.image))
            usage = await desk.usage()
            self.clean, self.uses = CleanDesk(desk, own, self.image, usage.processes, usage.outgoing), 0
            self.opened.append(desk.id)
        self.uses += count
        return self.clean

    async def leave(self) -> None:
        """Burn the clean desk; the next items get another."""
        at, self.clean = self.clean, None
        if at is not None:
            await at.stack.aclose()

    async def try_batch(self, batch: Sequence[VerifyRequest], at: CleanDesk, *, is_last: bool = False) -> bool:
        """Check a batch in a desk; return whether the result is valid. With `is_last`, trouble is the item's fault."""
        folders = {request.item.index: f"i{request.item.index}" for request in batch}
        for request in batch:
            try:
                await self.bring(request, at, folders[request.item.index])
            except BriefError as e:  # the item is no longer the one that was approved
                request.refuse(describe_error(e))
        grouped = [self.list_looks(request) for request in batch]
        looks = [each for group in grouped for each in group]
        requests = [[_ask(each, folders[each.request.item.index]) for each in group] for group in grouped]
        evidence, trouble = await look_many(at.desk, requests, list(folders.values())) if looks else ([], "")
        attempts = 0
        if at.processes:  # 0: the desk's wall does not let the host count programs
            trouble = trouble or await at.check_leftovers()
            attempts = await at.count_send_attempts()
        if (trouble or attempts) and not is_last:
            return False
        proofs = [replace(each, trouble=trouble, attempts=attempts if at.processes else None) for each in evidence]
        verdicts = await anyio.to_thread.run_sync(_judge, looks, proofs, at.image)
        for request in batch:
            request.clean = at.desk.id
            request.is_cut = len(batch) > 1 and any(
                is_cut(proof) for look, proof in zip(looks, proofs, strict=True) if look.request is request
            )
            mine = [
                (look.place, verdict) for look, verdict in zip(looks, verdicts, strict=True) if look.request is request
            ]
            request.candidates = [
                replace(each, verdicts=tuple(verdict for at_place, verdict in mine if at_place == place))
                for place, each in enumerate(request.candidates)
            ]
        return not trouble and not attempts

    async def bring(self, request: VerifyRequest, at: CleanDesk, folder: str) -> None:
        """Write an item's deliverables and the inputs of their checks to a clean desk; the item comes from the host."""
        beside: dict[str, None] = {}
        for place, each in enumerate(request.candidates):
            if not each.lacks:
                await at.desk.write(f"{folder}/{_make_file_name(place, each)}", each.data)
                beside.update(dict.fromkeys(name for look in self.checks[place] for name in look.check.beside))
        for name in beside:
            target = f"{folder}/{BESIDE}/{locate_input(name)}"
            if name == request.item.name:
                await at.desk.write(target, request.item.read())
            else:
                await self.desks.bring_input(at.desk, name, target)

    def list_looks(self, request: VerifyRequest) -> list[ItemLook]:
        return [
            ItemLook(request, place, look)
            for place, each in enumerate(request.candidates)
            if not each.lacks
            for look in self.checks[place]
        ]


def _require_checks(item: Deliverable) -> tuple[RequiredLook, ...]:
    """Return the checks of a deliverable; raise `BriefError` for one that cannot check many files in one desk."""
    if not item.checks:
        raise BriefError(f"{item.path} has no check; a swarm verifies every file, so add `checks`")
    looks = tuple(RequiredLook(name, expect, find(name, expect)) for name, expect in list_checks(item))
    for each in looks:
        check = each.check
        if check.alone or not isinstance(check, BatchedCheck) or check.ask_look(item.path, BESIDE) is None:
            raise BriefError(
                f"the check {each.name!r} needs a clean desk for every file, which a swarm does not provide; check "
                "items with json, csv or quotes, and use this check only for the report"
            )
    return looks


def _make_file_name(place: int, candidate: Candidate) -> str:
    return f"deliverable-{place}{PurePosixPath(candidate.item.path).suffix}"


def _ask(look: ItemLook, folder: str) -> LookRequest:
    path = f"{folder}/{_make_file_name(look.place, look.request.candidates[look.place])}"
    check = look.required.check
    request = check.ask_look(path, f"{folder}/{BESIDE}") if isinstance(check, BatchedCheck) else None
    assert request is not None  # `_require_checks` refused the others
    return request


def _judge(looks: Sequence[ItemLook], evidence: Sequence[Evidence], image: str) -> list[StoredVerdict]:
    return [
        judge_evidence(look.required.check, each, look.required.name, image, look.required.expect)[1]
        for look, each in zip(looks, evidence, strict=True)
    ]
