"""Carries out one step with a model: thought, action, observation."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace

import anyio

from hotdesk.brain.asking import describe_refusal
from hotdesk.brain.compaction import WorkingSet
from hotdesk.brain.models.seam import Item, ModelRequest, OurMessage, Reply, Results
from hotdesk.brain.notes import Notes
from hotdesk.brain.own_tools import CHOOSE, OWN, OWN_WITH_MEMORY
from hotdesk.brain.prompts import describe_balance, describe_findings, describe_situation, write_instructions
from hotdesk.brain.repetition import SILENT, RepetitionWatcher
from hotdesk.brain.seam import Log, Situation, StepOutcome
from hotdesk.brain.window import WindowShares, has_room, share_out, shorten_summaries
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable, unwrap_group
from hotdesk.tool import Call, Observation, Stage, Tool, ToolArgumentError, get_integer

NUDGE = (
    "Your reply contained no tool call, so nothing happened. Call a tool to continue. Call finish when the step is "
    "done, or give_up if it cannot be done."
)
"""The answer to a reply without a call."""
CUT = (
    "Your reply was cut off because it reached the maximum length, before any tool call was complete. Write less text, "
    f"and split large files over several calls. {NUDGE}"
)
"""The answer to a reply that was cut off before a call."""
ALWAYS = (
    f"Every step can also use {', '.join(tool.name for tool in OWN)}. If this step needs another tool, "
    "request the tool with amend_plan."
)
"""Added to the error of a call of a tool that the step does not have."""
LOW_SHARES = (1 / 3, 1 / 10)
"""Shares of a limit: when less than one of them is left, the worker is told so, once for each."""
COMPUTER = "computer"
_OFFERED_ELSEWHERE = ("choose", COMPUTER)
NATIVE = frozenset(
    f"screen_{name}"
    for name in "screenshot zoom move drag press release scroll key hold_key wait cursor_position".split()
)
"""Tools that a native computer tool replaces. The others are offered beside it: starting a program, and clicking and
typing by a reference from `screen_read`."""


@dataclass(slots=True)
class Loop:
    """Carries out one step with a model."""

    situation: Situation
    stage: Stage
    log: Log
    ask: Callable[[ModelRequest], Awaitable[Reply]]
    window: int
    """Tokens of the smallest window among the models."""
    notes: Notes
    job: str = ""
    native: bool = False
    """Whether the models have a native computer tool."""
    watcher: RepetitionWatcher = field(default_factory=RepetitionWatcher)
    offered: list[Tool] = field(default_factory=list)
    room: WindowShares | None = None
    earlier: Sequence[Item] = ()
    """The conversation of the last attempt at this step, if this attempt continues it."""
    conversation: WorkingSet = field(init=False)
    warned: dict[str, float] = field(default_factory=dict)
    """Limits of the budget that the worker was warned about, each with the share that was reached."""

    def begin(self) -> tuple[Item, ...]:
        """Return the first items: the last attempt's conversation with the check's findings, or a new conversation."""
        if self.earlier:
            return (*self.earlier, OurMessage(describe_findings(self.situation)))
        shown = shorten_summaries(self.situation, self.window)
        return (OurMessage(describe_situation(shown, self.list_permitted())), *self.situation.history)

    async def take(self) -> StepOutcome:
        """Repeat until the step is finished or given up, or the worker makes no progress."""
        conversation = self.conversation = WorkingSet(self.share_window().conversation, self.begin())
        self.find_low()  # the first message has the balance already
        while True:
            self.log.check()
            conversation.resize(self.share_window().conversation)
            reply, acts = await self.think(tuple(conversation.iterate_items()))
            conversation.add(reply)
            if reply.stop == "refused":  # by every model, see `Asker`
                return StepOutcome(False, f"the model refused: {describe_refusal(reply)}", "the model refused")
            if not reply.calls:
                if self.watcher.note_silence() == "stop":
                    why = f"the worker replied {SILENT} times in a row without calling a tool"
                    return StepOutcome(False, why, why)
                conversation.add(OurMessage(CUT if reply.stop in ("length", "window") else NUDGE))
                continue
            observations, ended = await self.act(reply.calls, acts)
            conversation.add(Results(tuple(zip(reply.calls, observations, strict=True))))
            if ended is not None:
                return ended

    async def think(self, history: Sequence[Item]) -> tuple[Reply, list[int]]:
        """Ask the model for its next reply; its calls are on disk before they are carried out."""
        began, room = time.monotonic(), self.share_window()
        request = ModelRequest(
            system=write_instructions(self.situation),
            history=history,
            tools=room.tools,
            tokens=room.reply,
            screen=self.stage.screen if self.native else None,
            screen_tools=[tool for tool in self.stage.listed if tool.name in self.list_replaced()],
            step=self.situation.step.name,
            cache=self.job,
            attempt=self.situation.attempt,
            before=self.situation.before,
        )
        reply = await self.ask(request)
        spent = int((time.monotonic() - began) * 1000)
        return reply, self.log.note_reply(self.situation.step.name, request, reply, spent)

    def share_window(self) -> WindowShares:
        """Divide the context window; again when an amendment changes the tools."""
        tools = self.list_tools()
        if self.room is None or tools != self.offered:
            self.offered, self.room = tools, share_out(self.window, write_instructions(self.situation), tools)
        return self.room

    def list_tools(self) -> list[Tool]:
        """List the tools of a request: those of all steps, the same for each, so that a provider's cache holds.

        If they would fill a small window, list only those of this step.
        """
        listed = self.select_listed(self.stage.listed)
        if has_room(self.window, write_instructions(self.situation), listed):
            return listed
        return self.select_listed(self.stage.tools)

    def select_listed(self, tools: Sequence[Tool]) -> list[Tool]:
        """Return tools without those that a native computer tool replaces, and the brain's own tools."""
        chooses = any(step.kind == "choose" for step in self.situation.plan.steps)
        theirs = [tool for tool in tools if tool.name not in self.list_replaced()]
        return [*theirs, *self.own, *([CHOOSE] if chooses else [])]

    def list_permitted(self) -> list[str]:
        """List the tools of a request that this step may use; empty if it may use all of them."""
        permitted = [tool.name for tool in self.stage.tools]
        listed = [tool.name for tool in self.list_tools() if tool not in self.own and tool is not CHOOSE]
        replaced = self.list_replaced()
        if set(listed) <= set(permitted) and (not replaced or replaced.intersection(permitted)):
            return []
        names = [name for name in listed if name in permitted]
        names += [COMPUTER] if replaced.intersection(permitted) else []
        names += ["choose"] if self.situation.step.kind == "choose" else []
        return [*names, *(tool.name for tool in self.own)]

    @property
    def own(self) -> tuple[Tool, ...]:
        return OWN_WITH_MEMORY if self.situation.task.keeps_memory else OWN

    def list_replaced(self) -> frozenset[str]:
        return NATIVE if self.native and self.stage.screen else frozenset()

    async def act(self, calls: Sequence[Call], acts: Sequence[int]) -> tuple[list[Observation], StepOutcome | None]:
        """Carry out calls: in parallel if all of their tools allow it, otherwise in order."""
        observations: list[Observation] = [Observation()] * len(calls)
        ended: list[StepOutcome] = []
        failed: list[str] = []

        async def one(place: int) -> None:
            began = time.monotonic()
            call = calls[place]
            if call.tool == COMPUTER and is_shown_later(calls[place + 1 :]):
                call = _without_picture(call)
            observation, end = await self.use(call, failed)
            if not observation.ok:
                failed.append(make_printable(calls[place].tool[:40]))
            verdict = self.watcher.judge_call(calls[place], observation)
            if verdict:
                observation = replace(observation, text=f"{observation.text}\n\n{self.watcher.why}")
            if verdict == "stop" and end is None:
                end = StepOutcome(
                    False, f"the worker made no progress: {self.watcher.why}", "the worker made no progress"
                )
            if end is None and place == len(calls) - 1 and (low := self.find_low()):
                observation = replace(observation, note="\n".join(filter(None, (observation.note, low))))
            spent = int((time.monotonic() - began) * 1000)
            paper = self.log.note_observation(self.situation.step.name, acts[place], calls[place], observation, spent)
            self.notes.add_observation(
                self.situation.step.name, acts[place], calls[place].tool, observation.text, paper
            )
            observations[place] = observation
            if end is not None:
                ended.append(end)

        if len(calls) > 1 and self.can_run_in_parallel(calls):
            try:
                async with anyio.create_task_group() as tasks:
                    for place in range(len(calls)):
                        tasks.start_soon(one, place)
            except BaseExceptionGroup as group:
                raise unwrap_group(group) from None
        else:
            for place in range(len(calls)):
                # A reply's first call is carried out: a script that goes on later takes a refused one for a failure.
                if ended or (place > 0 and self.log.is_halted()):
                    why = "the step had already ended" if ended else "the job was asked to stop"
                    observations[place] = Observation(f"Not executed: {why}.", ok=False)
                    self.log.note_observation(
                        self.situation.step.name, acts[place], calls[place], observations[place], 0
                    )
                else:
                    await one(place)
        return observations, ended[0] if ended else None

    def can_run_in_parallel(self, calls: Sequence[Call]) -> bool:
        parallel = {tool.name for tool in (*self.stage.tools, *self.own) if tool.parallel}
        return all(call.tool in parallel for call in calls)

    def find_low(self) -> str:
        """Describe which limits have just fallen below a third or a tenth; empty if none has."""
        low = []
        for each in self.situation.balance():
            reached = min((share for share in LOW_SHARES if each.amount < share * each.total), default=1.0)
            if reached < self.warned.get(each.name, 1.0):
                self.warned[each.name] = reached
                low.append(each)
        return f"Budget is getting low. Left for the whole job: {describe_balance(low)}." if low else ""

    async def use(self, call: Call, failed: Sequence[str] = ()) -> tuple[Observation, StepOutcome | None]:
        """Carry out one call; return the step's outcome if the call ends it. `failed` are failed calls of this turn."""
        own = next((tool for tool in self.own if tool.name == call.tool), None)
        if own is None:
            observation = await self.stage.use(call)
            if not observation.ok and call.tool not in _OFFERED_ELSEWHERE and not self.offers(call.tool):
                observation = replace(observation, text=f"{observation.text} {ALWAYS}")
            chosen = call.tool == "choose" and observation.ok
            return observation, StepOutcome(True, f"the worker chose: {observation.text[:200]}") if chosen else None
        try:
            arguments = own.check(call.arguments)
        except ToolArgumentError as e:
            return Observation(str(e), ok=False), None
        match call.tool:
            case "finish":
                return await self.finish(str(arguments["summary"]), failed)
            case "give_up":
                return Observation("Given up."), StepOutcome(False, str(arguments["why"]), "the worker gave up")
            case "remember":
                self.notes.remember(self.situation.step.name, str(arguments["text"]))
                if not arguments.get("keep"):
                    return Observation("Noted."), None
            case "recall":
                return Observation(self.notes.recall(str(arguments["query"]), get_integer(arguments, "limit"))), None
        return await self.stage.use(replace(call, arguments=arguments)), None

    def offers(self, name: str) -> bool:
        return any(tool.name == name for tool in self.stage.tools)

    async def finish(self, summary: str, failed: Sequence[str] = ()) -> tuple[Observation, StepOutcome | None]:
        """End the step if it left what it promised and no call of this turn failed."""
        if failed:
            count = f"{len(failed)} call{'s' if len(failed) > 1 else ''} of this turn failed ({', '.join(failed)})"
            why = f"The step is not finished: {count}. Read their results first, then call finish without other calls."
            return Observation(why, ok=False), None
        if lacking := await self.stage.describe_missing():
            return Observation(f"The step is not finished: {lacking}", ok=False), None
        return Observation("Finished."), StepOutcome(True, summary)


def is_shown_later(following: Sequence[Call]) -> bool:
    """Return whether a later call of the turn is another screen action, with only screen tools in between."""
    others = (call.tool for call in following if not call.tool.startswith("screen_"))
    return next(others, "") == COMPUTER


def _without_picture(call: Call) -> Call:
    """Return the call without a request for a picture: the next call shows the result."""
    if not isinstance(call.arguments, dict):
        return call  # the stage reports what is wrong with it
    return replace(call, arguments={**call.arguments, "picture": False})
