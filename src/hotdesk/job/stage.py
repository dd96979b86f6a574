"""The stage of one step: its tools, and the checks of its promised results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from hotdesk.brain.own_tools import KEEPING
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import FileError, make_printable
from hotdesk.hands.screen import computer
from hotdesk.hands.screen.tools import HEIGHT, WIDTH
from hotdesk.hands.toolbox import Toolbox
from hotdesk.job.step_check import probe_check, run_check
from hotdesk.plan import Step
from hotdesk.tool import Arguments, Call, Observation, Tool, ToolArgumentError

Result = TypeVar("Result")
_MAX_DOUBT_CHARS = 500
"""Maximum characters of a provider's warning."""
Ask = Callable[[str, Arguments], Awaitable[Observation]]
"""Handles a question to people, an amendment or a note for later jobs, by the tool's name."""
ASKED = ("ask_person", "amend_plan")
YES = "yes"
_SETTLE = {"quiet": 0.3, "timeout": 2.0}


async def _refuse_keeping(tool: str, arguments: Arguments) -> Observation:
    return Observation("This job cannot store anything for later jobs. Continue without storing.", ok=False)


@dataclass(slots=True)
class StepStage:
    """One step at one desk."""

    step: Step
    desk: Desk
    toolbox: Toolbox
    people: Ask
    keep: Ask = _refuse_keeping
    """Handles the tools that store something for later jobs."""
    job_tools: Collection[str] = ()
    """Names of the tools of all steps: requests list them, but the toolbox refuses those of other steps."""

    @property
    def tools(self) -> Sequence[Tool]:
        allowed = self.toolbox.allowed
        return [tool for tool in self.toolbox.tools if allowed is None or tool.name in allowed]

    @property
    def listed(self) -> Sequence[Tool]:
        """The tools that model requests list: those of this step and of the job's other steps."""
        allowed = self.toolbox.allowed
        return [
            tool
            for tool in self.toolbox.tools
            if allowed is None or tool.name in allowed or tool.name in self.job_tools
        ]

    @property
    def screen(self) -> tuple[int, int] | None:
        """The screen's size, or `None` if no step of the job may take screenshots."""
        return (WIDTH, HEIGHT) if any(tool.name == "screen_screenshot" for tool in self.listed) else None

    def has_tool(self, name: str) -> bool:
        return any(tool.name == name for tool in self.tools)

    async def use(self, call: Call) -> Observation:
        """Use a tool, a provider's computer actions or one of the plan's own actions, or ask people."""
        if call.tool in ASKED:
            assert isinstance(call.arguments, dict)  # the caller has checked its arguments
            return await self.people(call.tool, call.arguments)
        if call.tool in KEEPING:
            return await self.keep_undriven(call)
        if call.tool == "computer":
            return await self.compute(call)
        if call.tool == "choose":
            return await self.choose(call.arguments)
        return await self.toolbox.use(call.tool, call.arguments)

    async def compute(self, call: Call) -> Observation:
        """Carry out a provider's screen actions, then take a screenshot if none resulted and one is wanted."""
        arguments = call.arguments
        try:
            uses = _translate_actions(arguments)
        except ToolArgumentError as e:
            return Observation(str(e), ok=False)
        may_use = all(self.has_tool(use.tool) for use in uses)  # otherwise the toolbox refuses, and no person is asked
        doubts = _describe_doubts(arguments) if may_use else ""
        if doubts and (refusal := await self.request_acknowledgement(doubts, _compute_digest(call))):
            return Observation(refusal, ok=False)
        observation, texts = Observation(), []
        for use in uses:
            observation = await self.toolbox.use(use.tool, use.arguments)
            texts.append(observation.text)
            if not observation.ok:
                break
        is_wanted = not isinstance(arguments, Mapping) or arguments.get("picture") is not False
        if is_wanted and not observation.image and self.has_tool("screen_screenshot"):
            if self.has_tool("screen_settle"):  # programs need a moment to draw
                await self.toolbox.use("screen_settle", _SETTLE)
            shot = await self.toolbox.use("screen_screenshot", {})
            return Observation("\n".join(filter(None, texts)), observation.ok, shot.image, shot.media)
        return observation

    async def request_acknowledgement(self, doubts: str, digest: str) -> str:
        """Ask a person to acknowledge a provider's warning about the actions with this digest.

        Return why they are not done, or `""`.
        """
        question = f"The model's provider warns about the next screen actions: {doubts}. Carry them out?"
        rule = "Answer yes to carry them out, anything else to skip them."
        scope = f"Your answer applies to these actions alone; their SHA-256 is {digest}."
        answer = await self.people("ask_person", {"question": f"{question} {rule} {scope}"})
        if answer.ok and answer.text.strip().lower() == YES:
            return ""
        return f"The screen actions were not done: the provider warned ({doubts}), and no person agreed. {answer.text}"

    async def choose(self, arguments: object) -> Observation:
        """Carry out one of the actions that the plan fixed before the worker read any content."""
        name = arguments.get("action") if isinstance(arguments, Mapping) else None
        action = next((each for each in self.step.actions if each.name == name), None)
        if not self.step.actions:
            return Observation("choose was not used: this step has no actions to choose from.", ok=False)
        if action is None:
            there = ", ".join(each.name for each in self.step.actions)
            return Observation(f"Unknown action {str(name)[:80]!r}; the actions of this step are {there}.", ok=False)
        before = self.toolbox.allowed
        self.toolbox.allowed = None if before is None else {*before, action.tool}
        try:
            return await self.toolbox.use(action.tool, dict(action.arguments))
        finally:
            self.toolbox.allowed = before

    async def keep_undriven(self, call: Call) -> Observation:
        """Store something for later jobs once no person controls the desk."""
        assert isinstance(call.arguments, dict)  # the caller has checked its arguments
        arguments = call.arguments
        return await self.run_undriven(lambda: self.keep(call.tool, arguments))

    async def describe_missing(self) -> str:
        """Describe the step's missing results, once no person controls the desk and may be changing files."""
        return await self.run_undriven(self.check_outputs)

    async def run_undriven(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Wait until no person controls the desk, then run `work`."""
        results: list[Result] = []

        async def collect() -> None:
            results.append(await work())

        wheel = self.toolbox.wheel
        await wheel.wait_until_free()
        await wheel.drive(collect, stands_still=True, repeatable=False)
        return results[0]

    async def check_outputs(self) -> str:
        absent = [path for path in self.step.makes if not await self.has(path)]
        if absent:
            return f"the step must write {', '.join(absent)} to the home folder; it is missing or empty."
        if not self.step.check:
            return ""
        return await run_check(self.desk, self.step.check, user_site=self.may_install())

    async def try_check(self) -> str:
        """Explain, before work on the step begins, why its check cannot run at this desk; return `""` if it can."""
        return await probe_check(self.desk, self.step.check, user_site=self.may_install()) if self.step.check else ""

    def may_install(self) -> bool:
        """Return whether the step may install packages, in which case its check may use them."""
        return self.has_tool("packages")

    async def has(self, path: str) -> bool:
        try:
            found = await self.desk.stat(path)
        except FileError:
            return False
        return found.kind == "directory" or (found.kind == "file" and found.size > 0)


def _describe_doubts(arguments: object) -> str:
    """Return a provider's safety warnings for some actions as one line, in the provider's words."""
    raised = arguments.get("checks") if isinstance(arguments, Mapping) else None
    each = [item if isinstance(item, Mapping) else {} for item in raised] if isinstance(raised, list) else []
    texts = (f"{item.get('code')}: {item.get('message')}" for item in each)
    return make_printable("; ".join(texts))[:_MAX_DOUBT_CHARS]


def _compute_digest(call: Call) -> str:
    """Return the SHA-256 of a call with its whole warnings, so that a person's yes applies to this call alone."""
    return hashlib.sha256(json.dumps([call.id, call.arguments], sort_keys=True, default=str).encode()).hexdigest()


def _translate_actions(arguments: object) -> list[computer.ScreenAction]:
    match arguments:
        case {"vendor": "anthropic", "actions": [*actions]}:
            scale = computer.Scale()
            return [
                use
                for action in actions
                if isinstance(action, Mapping)
                for use in computer.translate_anthropic(action, scale)
            ]
        case {"vendor": "openai", "actions": actions}:
            return computer.translate_openai(actions, computer.Scale())
    raise ToolArgumentError("`vendor` must be anthropic or openai, and `actions` a list of its screen actions")
