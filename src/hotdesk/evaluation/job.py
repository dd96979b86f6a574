"""Carries out the job of one run: `hotdesk work` in a child process whose events are read as they arrive."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

import anyio

from hotdesk.brain.models.record import RecordingHeader, read_header
from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError, make_printable
from hotdesk.evaluation.command import StateDirectory, read_lines, repeat_option
from hotdesk.evaluation.task import SOLUTION, EvalTask
from hotdesk.event import Event, Pending, compile_readers
from hotdesk.strict import StrictError, compile_reader, parse_json

_MAX_EVENT_BYTES = 16 << 20
_MAX_EVENTS = 1_000_000
_GRACE_S = 180.0
"""Seconds a job may run beyond its time limit before it is ended."""
_ANSWER_TIMEOUT_S = 60.0
_NOBODY = "This is an evaluation. No person can answer: decide yourself, within the brief."
_NO_APPROVAL = (
    "This is an evaluation. No person can approve more rights for a step: do what this step can without them, and "
    "leave the rest to a later step that has them."
)
_RECEIPT = "Receipt"


@dataclass(frozen=True, slots=True)
class EvalWorker:
    """The workers of an evaluation's jobs: models, each task's reference solution, or recordings."""

    models: tuple[str, ...] = ()
    planners: tuple[str, ...] = ()
    is_reference: bool = False
    replay: Path | None = None
    """The folder of recordings to replay; `None`: nothing is replayed."""
    record: Path | None = None
    """The folder to write recordings to; `None`: nothing is recorded."""
    answered_by: str = ""
    """Who answers in place of the models, as noted in recordings; empty: the models do."""

    def get_recording(self, label: str) -> Path | None:
        return self.replay / f"{label}.jsonl" if self.replay is not None else None

    def describe(self, labels: Sequence[str]) -> str:
        """Describe the workers for people; for recordings also how they were made."""
        if self.is_reference:
            return "each task's reference solution, a script; no model is called"
        if self.replay is not None:
            headers = {read_header(self.replay / f"{label}.jsonl") for label in labels}
            return f"replay of recordings; no model is called. {' '.join(sorted(map(_describe_header, headers)))}"
        planners = f", planned by {', '.join(self.planners)}" if self.planners else ""
        answered = f"; {_describe_answers(self.answered_by)}" if self.answered_by else ""
        return f"{', '.join(self.models)}{planners}{answered}"

    def build_arguments(self, task: EvalTask, label: str) -> list[str]:
        if self.is_reference:
            return ["--script", str(task.folder / SOLUTION)]
        if (recording := self.get_recording(label)) is not None:
            return ["--replay", str(recording)]
        words = [*repeat_option("--model", self.models), *repeat_option("--planner", self.planners)]
        if self.record is not None:
            words += ["--record", str(self.record / f"{label}.jsonl"), "--answered-by", self.answered_by]
        return words


def _describe_header(header: RecordingHeader) -> str:
    if not header.models:
        return "The recording does not say how it was made."
    answered = f", {_describe_answers(header.answered_by)}" if header.answered_by else ""
    return f"Recorded with {', '.join(header.models)}{answered}."


def _describe_answers(answered_by: str) -> str:
    return f"answered {answered_by}" if answered_by.startswith("by ") else f"answered by {answered_by}"


@dataclass(frozen=True, slots=True)
class PrintedEvent:
    """One line of output of `hotdesk work --json`."""

    at: int
    event: str
    data: dict[str, object]


@dataclass(frozen=True, slots=True)
class ResultPaths:
    """The paths of a job's results, the only part of its receipt that is needed."""

    paths: dict[str, str]


@dataclass(slots=True)
class JobOutput:
    """The output and result of a job."""

    events: list[Event] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)
    """Paths of deliverables' files, by their paths in the brief."""
    lines: list[bytes] = field(default_factory=list)
    exit_code: int = -1
    seconds: float = 0.0

    def take(self, line: bytes) -> Event | None:
        """Record a line; return its event, or `None` for the receipt and for events this version does not know."""
        if len(self.lines) >= _MAX_EVENTS:
            raise HostError(f"The job printed more than {_MAX_EVENTS} events and was stopped.")
        self.lines.append(line)
        try:
            found: PrintedEvent = compile_reader(PrintedEvent)(parse_json(line))
            if found.event == _RECEIPT:
                self.paths = compile_reader(ResultPaths, ignore_unknown=True)(found.data).paths
                return None
            read_event = compile_readers().get(found.event)
            event = read_event(found.data) if read_event is not None else None
        except StrictError as e:
            raise HostError(f"`hotdesk work --json` printed a malformed line: {make_printable(str(e))}.") from None
        if event is not None:
            self.events.append(event)
        return event


async def carry_out(state: StateDirectory, brief: Path, out: Path, worker: Sequence[str], seconds: float) -> JobOutput:
    """Carry out a brief. Questions to people are answered or refused at once, because no person attends."""
    limits = ["--approve", "auto", "--seconds", f"{seconds:g}"]
    output, began = JobOutput(), time.monotonic()
    with anyio.move_on_after(seconds + _GRACE_S) as scope:
        async with state.start("work", str(brief), "--json", "--out", str(out), *limits, *worker) as process:
            assert process.stdout is not None
            async for line in read_lines(process.stdout, _MAX_EVENT_BYTES, "`hotdesk work`"):
                event = output.take(line)
                if isinstance(event, Pending):
                    await _decide(state, event)
            output.exit_code = await process.wait()
    output.seconds = time.monotonic() - began
    if scope.cancelled_caught:
        raise HostError(f"The job did not end within {seconds + _GRACE_S:g} s and was stopped.")
    if not output.events:
        raise HostError(f"The job did not start: {state.read_last_error('work')}")
    return output


async def _decide(state: StateDirectory, pending: Pending) -> None:
    """Answer a question; refuse any other request for approval."""
    if pending.kind == "question":
        done = await state.run("answer", pending.id, _NOBODY, seconds=_ANSWER_TIMEOUT_S)
    else:
        done = await state.run("refuse", pending.id, "--reason", _NO_APPROVAL, seconds=_ANSWER_TIMEOUT_S)
    if done.exit_code:
        raise HostError(f"A pending request of the job could not be answered: {done.complaint}")
