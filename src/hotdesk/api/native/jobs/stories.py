"""The timeline of a job, as its report shows it: steps, the input of each act and its result."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

import anyio
from fastapi import APIRouter, Path, Query
from pydantic import Field

from hotdesk.api.native.access.auth import ForJobs, RequestContext
from hotdesk.api.native.jobs.jobs import find
from hotdesk.api.native.jobs.story_cache import Remembered
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import JobName, Model, clean
from hotdesk.checks.seam import Fault
from hotdesk.job.record.decisions import JOBS, get_journal_path
from hotdesk.job.record.summary import JobSummary
from hotdesk.job.report.facts import Attempted, Moment, ToolUse
from hotdesk.job.report.paper_text import PaperReader, decode_output, read_output
from hotdesk.job.report.story import Following, Timeline

router = APIRouter(tags=["jobs"], responses=document_errors())
PIECE = 500
"""Changes in one response; the changes of one event are never split."""
MAX_FAULTS, MAX_ARGUMENTS = 40, 32
TITLE, TEXT, LONG = 300, 600, 1200
ARGUMENT, OUTPUT = 4000, 16_000
"""Limits in characters, because desks and models choose the length of these texts."""
Since = Annotated[int, Query(ge=0, le=1 << 53, description="Only changes after this position in the journal.")]
_ActNumber = Annotated[int, Path(ge=1, le=10**6)]


class FaultShown(Model):
    """A fault that a check found."""

    where: str
    expected: str
    found: str


class MomentShown(Model):
    """An entry of the timeline."""

    number: int = Field(description="The entry's position in the journal; entries are sorted by position.")
    at: float
    title: str
    text: str = Field(description="Untrusted.")
    tone: str = Field(description="good, bad, wait, plain")
    faults: list[FaultShown]
    findings: list[str] = Field(
        [], description="The faults found in a file, one line for each kind and cell range. They quote it: untrusted."
    )


class AttemptShown(Model):
    """One attempt at a step."""

    number: int
    at: float
    step: str
    attempt: int
    what: str = Field(description="Untrusted.")
    model: str
    ended: float | None
    outcome: str = Field(description="done, failed, or empty: running or interrupted.")
    note: str = Field(description="Why the attempt failed. Untrusted.")
    leaves: str = Field(description="The worker's summary. Untrusted.")
    rolled_back: bool


class ActLine(Model):
    """One use of a tool, shortened."""

    act: int
    attempt: int = Field(description="The number of the attempt that the act belongs to.")
    at: float
    tool: str
    call: str = Field(description="The tool's main argument, such as a command, URL or path. Untrusted.")
    why: str = Field(description="What the worker wrote before the act. Untrusted.")
    outcome: str = Field(description="done, failed, or empty: not recorded.")
    seconds: float
    result: str = Field(description="The result, or why the act failed. Untrusted.")
    picture: bool = Field(description="Whether GET /jobs/JOB/frames/ACT has a screenshot of the act.")


class StoryShown(Model):
    """The new entries of the timeline."""

    moments: list[MomentShown]
    steps: list[AttemptShown]
    acts: list[ActLine]
    last: int = Field(description="A position in the journal; pass it as `after` to get later changes.")
    more: bool = Field(description="Whether more entries are available now.")


class ArgumentShown(Model):
    """One argument of a tool."""

    name: str
    value: str = Field(description="Untrusted.")


class ActShown(ActLine):
    """One use of a tool in full; only very long texts are shortened."""

    arguments: list[ArgumentShown]
    exit_code: int | None = Field(description="The exit code, if the act ran a program.")
    output: str = Field(description="Untrusted. Long output is shortened to its beginning and end.")


@router.get("/jobs/{job}/story", summary="The timeline of a job, in words")
async def story(context: ForJobs, job: JobName, after: Since = 0) -> StoryShown:
    """Return the timeline: steps, acts with their arguments and results, and all other events."""
    found = await _find_story(context, job)
    if found is None:
        return StoryShown(moments=[], steps=[], acts=[], last=0, more=False)
    async with found.reading:
        return await anyio.to_thread.run_sync(read_on, context, found.following, after)


@router.get("/jobs/{job}/acts/{act}", summary="One act")
async def get_act(context: ForJobs, job: JobName, act: _ActNumber) -> ActShown:
    """Return one use of a tool with all its arguments and its result."""
    found = await _find_story(context, job)
    if found is not None:
        async with found.reading:
            await anyio.to_thread.run_sync(found.following.read_on, get_journal_path(context.tenant.settings))
            tool_use = found.following.story.acts.get(act)
            if tool_use is not None:
                return await anyio.to_thread.run_sync(format_act, found.following.story.reading, tool_use)
    raise ProblemError(404, "act.missing", f"job {job} has no act {act}; GET /jobs/{job}/story lists its acts")


async def _find_story(context: RequestContext, job: str) -> Remembered | None:
    """Return a job's timeline as far as it was read; `None` if the job has not begun."""
    summary = await find(context, job)
    if not isinstance(summary, JobSummary):
        return None

    def begin() -> Following:
        return Following(job, Timeline(PaperReader(context.tenant.settings.lib / JOBS, job)))

    if summary.forgotten is not None:  # its papers are deleted, so what was cached of them is dropped
        context.native.stories.forget(context.tenant.name, job)
        return Remembered(begin())
    return context.native.stories.find(context.tenant.name, job, begin)


def read_on(context: RequestContext, following: Following, after: int) -> StoryShown:
    following.read_on(get_journal_path(context.tenant.settings))
    return format_changes(following, after)


def format_changes(following: Following, after: int) -> StoryShown:
    """Return a page of changes after a position in the journal; the changes of one event are never split."""
    changed: list[Moment | Attempted | ToolUse] = [*following.story.timeline, *following.story.acts.values()]
    new = sorted((each for each in changed if each.changed > after), key=lambda each: each.changed)
    more = len(new) > PIECE
    if more:
        new = [each for each in new if each.changed <= new[PIECE].changed]
    return StoryShown(
        moments=[_describe_moment(each) for each in new if isinstance(each, Moment)],
        steps=[_describe_attempt(each) for each in new if isinstance(each, Attempted)],
        acts=[ActLine.model_validate(_summarize_act(each)) for each in new if isinstance(each, ToolUse)],
        last=new[-1].changed if more else max(following.last, after), more=more,
    )  # fmt: skip


def _describe_moment(moment: Moment) -> MomentShown:
    return MomentShown(
        number=moment.number, at=moment.at / 1000,
        title=cut_text(moment.title, TITLE), text=cut_text(moment.text, TEXT),
        tone=moment.tone, faults=_describe_faults(moment.faults[:MAX_FAULTS]),
        findings=[cut_text(each, LONG) for each in moment.findings],
    )  # fmt: skip


def _describe_faults(faults: Iterable[Fault]) -> list[FaultShown]:
    return [
        FaultShown(
            where=cut_text(each.where, TITLE),
            expected=cut_text(each.expected, TITLE),
            found=cut_text(each.found, TITLE),
        )
        for each in faults
    ]


def _describe_attempt(each: Attempted) -> AttemptShown:
    return AttemptShown(
        number=each.number, at=each.at / 1000, step=cut_text(each.step, TITLE), attempt=each.attempt,
        what=cut_text(each.what, TEXT), model=cut_text(each.model, TITLE), outcome=each.outcome,
        ended=each.ended / 1000 if each.ended else None,
        note=cut_text(each.note, LONG) if each.outcome == "failed" else "",
        leaves=cut_text(each.leaves, LONG), rolled_back=each.rolled_back,
    )  # fmt: skip


def _summarize_act(act: ToolUse) -> dict[str, object]:
    return {
        "act": act.number, "attempt": act.attempt, "at": act.at / 1000, "tool": cut_text(act.tool, TITLE),
        "call": cut_text(act.call, TEXT), "why": cut_text(act.why, TEXT), "outcome": act.outcome,
        "seconds": act.ms / 1000, "result": cut_text(act.words or act.output, LONG), "picture": act.has_picture,
    }  # fmt: skip


def format_act(reading: PaperReader, act: ToolUse) -> ActShown:
    call, output = reading.read_json(act.call_paper).get("arguments"), read_output(reading.read_json(act.paper))
    arguments = [
        ArgumentShown(name=cut_text(str(name), TITLE), value=cut_text(_format_value(str(name), value), ARGUMENT))
        for name, value in list(call.items() if isinstance(call, dict) else ())[:MAX_ARGUMENTS]
    ]
    return ActShown.model_validate({
        **_summarize_act(act), "arguments": arguments, "exit_code": output.exit_code,
        "output": cut_text(output.text, OUTPUT),
    })  # fmt: skip


def _format_value(name: str, value: object) -> str:
    """Format an argument; the bytes of a file are decoded to text."""
    if name == "data" and isinstance(value, str):
        try:
            return decode_output(value)
        except ValueError:
            return value
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def cut_text(text: str, longest: int) -> str:
    """Return a text that can be encoded as UTF-8; a long one is shortened to its beginning and end."""
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]}\n… ({len(text) - 2 * half:,} characters left out) …\n{text[-half:]}"
    return clean(text)
