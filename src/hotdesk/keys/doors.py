"""An owner's doors: starts keys on first need, admits desks that have a scope, and passes on questions and answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import anyio

from hotdesk.brief import ANY, CLOSED, Rule, Scope, parse_rule, rule_text
from hotdesk.config import Config
from hotdesk.desk.image.image import find
from hotdesk.desk.owner.parts import Parts
from hotdesk.desk.owner.pool import PROVEN_SECONDS
from hotdesk.desk.seam import Desk, DeskId, Spec
from hotdesk.door import selftest
from hotdesk.door.canary import Canary
from hotdesk.door.policy.policy import find_beyond_ceiling
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError
from hotdesk.event import Asked, Event, Proven
from hotdesk.ipc.tasks import Background
from hotdesk.keys.client import KeysClient
from hotdesk.keys.confirmations import Confirmations


class Doors:
    """The doors of one owner's desks."""

    def __init__(self, settings: Config, parts: Parts, tasks: Background) -> None:
        self.settings = settings
        self.parts = parts
        self.tasks = tasks
        self.keys: KeysClient | None = None
        self.meeting = anyio.Lock(fast_acquire=True)
        self.confirmations = Confirmations(self.meet)
        """Which events the server has, if this process lends desks to one."""
        self.admitted: dict[DeskId, tuple[Spec, Scope, Canary]] = {}
        """Desks that have a door: spec, scope and the canary of the self-test."""
        self.questions: dict[str, tuple[float, Asked]] = {}
        """Pending questions by id, with the monotonic time at which each expires."""
        self.in_use: Callable[[DeskId], None] = lambda desk: None
        self.on_question: Callable[[Asked], None] = lambda question: None
        self.gathers = False
        """Whether questions are answered in groups. If so, none is listed on its own."""

    async def prepare(self) -> None:
        await self.meet()

    async def prepare_journal(self) -> None:
        """Start keys and open their journal; without that, users without write access cannot read it."""
        await (await self.meet()).ask("ready", "")

    async def meet(self) -> KeysClient:
        """Return the client of the keys process; start the process if necessary."""
        async with self.meeting:
            if self.keys is None or self.keys.failure is not None:
                talk, wait = await self.parts.start_keys()
                self.close()
                self.keys = KeysClient(talk, wait)
                self.keys.on_event = self.handle_event
                self.confirmations.confirmed = 0  # the new process does not know it
                self.tasks.start(self.keys.run)
            return self.keys

    async def unlock(self, root: str) -> None:
        """Give keys the vault's root key, in base64, if they cannot derive it themselves."""
        await (await self.meet()).ask("unlock", "", root=root)

    async def admit(self, desk: DeskId, spec: Spec, scope: Scope) -> tuple[str, Mapping[str, str]]:
        scope = self.require_within_ceiling(scope)
        if desk not in self.admitted:  # a ready desk's door was started for its self-test
            await self.parts.start_door(desk)
        keys = await self.meet()
        seconds = spec.deadline if scope != CLOSED else spec.deadline + PROVEN_SECONDS
        sync = self.confirmations.is_required
        reply = await keys.open(desk, scope, seconds, self.settings, spec, sync=sync)
        self.admitted[desk] = (spec, scope, reply.canary)
        if scope != CLOSED:
            await self.confirmations.wait()
        return reply.ca, reply.env

    async def change_scope(self, desk: DeskId, scope: Scope, by: str) -> None:
        """Switch a desk's door to another scope, within the operator's ceiling; open connections are cut."""
        if desk not in self.admitted:
            raise BriefError(
                f"desk {desk} was opened without a door (network access) and cannot get one now; open another desk"
            )
        scope = self.require_within_ceiling(scope)
        if scope != CLOSED:  # access can be withdrawn without the server
            await self.confirmations.wait()
        await (await self.meet()).change_scope(desk, scope, by)
        if (entry := self.admitted.get(desk)) is not None:
            self.admitted[desk] = (entry[0], scope, entry[2])

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        """Add allow rules to a desk's scope, within the operator's ceiling. They never override a deny."""
        if desk not in self.admitted:
            raise BriefError(
                f"desk {desk} was opened without a door (network access) and cannot get one now; open another desk"
            )
        read = self.parse_allowed(rules)
        await self.confirmations.wait()
        await (await self.meet()).ask("allow", desk, rules=[rule_text(each) for each in read], by=by)

    def parse_allowed(self, rules: Sequence[str]) -> tuple[Rule, ...]:
        """Parse rules to add to a scope: allow rules within the operator's ceiling; raise `BriefError` for others."""
        read = tuple(parse_rule(each) for each in rules)
        for each in read:
            if each.verdict != "allow" or each.tunnel:
                kind = f"a rule with `{each.verdict}`" if each.verdict != "allow" else "a rule with a tunnel"
                raise BriefError(
                    f"the rule {rule_text(each)!r} cannot be added to an open desk, because it is {kind}; put it into "
                    "the brief, or into the request that opens the desk"
                )
        self.require_within_ceiling(Scope(read))
        return read

    def require_within_ceiling(self, scope: Scope) -> Scope:
        """Return a scope with the operator's host names added; raise `BriefError` beyond the operator's ceiling."""
        if (
            outside := find_beyond_ceiling(scope, tuple(map(parse_rule, self.settings.ceiling)))
            if self.settings.ceiling
            else ()
        ):
            raise BriefError(
                f"the operator's ceiling does not allow {', '.join(outside)}; leave it out, or ask the operator to "
                "extend `[door] ceiling` in config.toml"
            )
        if self.settings.ceiling and scope.proxy is not None:
            way = Rule(scope.proxy.host, port=scope.proxy.port, methods=ANY)
            if find_beyond_ceiling(Scope((way,)), tuple(map(parse_rule, self.settings.ceiling))):
                raise BriefError(
                    f"the egress proxy {scope.proxy.host}:{scope.proxy.port} is beyond the operator's ceiling; use "
                    "another proxy, or ask the operator to extend `[door] ceiling` in config.toml"
                )
        if self.settings.ceiling and scope.names:
            raise BriefError(
                "this machine has a `[door] ceiling`, so only the operator may map host names to addresses; leave out "
                "`names`, or ask the operator to add them to `[door] names` in config.toml"
            )
        if scope != CLOSED:
            scope = replace(scope, names={**scope.names, **self.settings.names})
        return scope

    async def prove(self, desk: Desk) -> None:
        """Test the door from inside the desk. The result is recorded, which ends the canary."""
        if desk.id not in self.admitted:
            raise DeskGone(f"desk {desk.id} ended before its door was tested; open another desk")
        spec, scope, canary = self.admitted[desk.id]
        report = await self.test_door(desk, spec, scope, canary)
        keys, event = await self.meet(), Proven(desk.id, report.passed, report.failed)
        await keys.ask("note", "", events=[{"event": "Proven", "data": asdict(event)}])
        selftest.require(report)

    async def test_door(self, desk: Desk, spec: Spec, scope: Scope, canary: Canary) -> selftest.CanaryReport:
        """Run the canaries in a desk."""
        return await selftest.prove(desk, find(self.settings.images, spec.image).python, scope, canary)

    async def dismiss(self, desk: DeskId, why: str) -> None:
        """End a desk's charter. If the keys process is gone, the charter is too."""
        self.admitted.pop(desk, None)
        self.questions = {number: each for number, each in self.questions.items() if each[1].desk != desk}
        if self.keys is not None and self.keys.failure is None:
            try:
                await self.keys.ask("close", desk, why=why)
            except HotdeskError:
                pass

    def note(self, *events: Event) -> None:
        """Record events; they are on disk when this returns."""
        if self.keys is None:
            raise HostError(
                "The keys process (vault and journal) is not running, so commands run as root cannot be recorded."
            )
        self.keys.note(*events)

    def certify(self, claim: Mapping[str, object]) -> bytes:
        if self.keys is None:
            raise HostError("The keys process is not running, so nothing can be signed.")
        return self.keys.certify(claim)

    def certify_swarm(self, swarm: str) -> bytes:
        if self.keys is None:
            raise HostError("The keys process is not running, so nothing can be signed.")
        return self.keys.certify_swarm(swarm)

    def find_secrets(self, data: bytes, scope: Scope) -> tuple[str, ...]:
        if self.keys is None:
            raise HostError(
                "The keys process (vault and journal) is not running, so the file cannot be searched for secrets."
            )
        return self.keys.find_secrets(data, scope)

    # -- questions --------------------------------------------------------------------------------------------

    def handle_event(self, message: dict[str, Any]) -> None:
        match message:
            case {"event": "used", "desks": list(desks)}:
                for desk in desks:
                    self.in_use(DeskId(str(desk)))
            case {"event": "awaited", "number": int(number)}:
                self.confirmations.await_number(number)
            case {"event": "Asked", "data": dict(data)}:
                question = Asked(**data)
                self.questions[question.id] = (time.monotonic() + question.seconds, question)
                self.on_question(question)
            case {"event": "Answered", "data": {"id": str(number)}}:
                self.questions.pop(number, None)

    def open_questions(self) -> list[Asked]:
        """List the questions that a person can answer one by one, each with the seconds left."""
        return [] if self.gathers else self.list_questions()

    def list_questions(self) -> list[Asked]:
        """List the pending questions, each with the seconds left."""
        now = time.monotonic()
        self.questions = {number: each for number, each in self.questions.items() if each[0] > now}
        return [replace(question, seconds=round(until - now, 1)) for until, question in self.questions.values()]

    async def answer(self, number: str, approved: bool, by: str, digest: str = "") -> Asked:
        """Answer a question. With `digest`, only if the question is unchanged."""
        found = [question for question in self.list_questions() if question.id == number]
        if not found:
            raise BriefError(f"no request {number!r} is pending; `hotdesk approve` lists pending requests")
        if digest and found[0].digest != digest:
            raise BriefError(f"request {number!r} is not the one you were shown; read it again, then answer")
        del self.questions[number]
        keys = await self.meet()
        await keys.ask("answer", found[0].desk, id=number, digest=found[0].digest, approved=approved, by=by)
        return found[0]

    async def enter_step(self, desk: DeskId, step: str) -> None:
        """Switch a desk's door to another step's rules and grants; open connections are cut."""
        await (await self.meet()).ask("step", desk, step=step)

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        """Return for each grant of a scope why it is not available, or an empty string if it is."""
        return await (await self.meet()).try_grants(scope)

    async def revoke(self, desk: DeskId, secret: str = "", why: str = "asked") -> None:
        await (await self.meet()).ask("revoke", desk, grant=secret, why=why)

    def close(self) -> None:
        if self.keys is not None:
            self.keys.close()
