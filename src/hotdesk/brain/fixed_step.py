"""A step with a fixed program from the plan: no model runs or reads its output."""

from __future__ import annotations

import time

from hotdesk.brain.models.seam import ModelRequest, Reply, TokenUsage
from hotdesk.brain.seam import Log, Situation, StepOutcome
from hotdesk.errors import make_printable
from hotdesk.plan import Step
from hotdesk.tool import Call, Stage

PLANNED = "the plan"
FREE = TokenUsage(dollars=0.0)


async def run_fixed(situation: Situation, stage: Stage, log: Log) -> StepOutcome:
    """Run the plan's own program; only its success is passed on."""
    step, began = situation.step, time.monotonic()
    call = Call("program", "run", {"command": step.program})
    (act,) = log.note_reply(
        step.name, ModelRequest("", ()), Reply(calls=(call,), stop="calls", usage=FREE, model=PLANNED), 0
    )
    observation = await stage.use(call)
    log.note_observation(step.name, act, call, observation, int((time.monotonic() - began) * 1000))
    if not observation.ok:
        return StepOutcome(False, "the program of the step failed", "the program of the step failed")
    lacking = await stage.describe_missing()
    summary = lacking or "the program of the step succeeded"
    return StepOutcome(not lacking, summary, _explain_lacking(step, lacking))


def _explain_lacking(step: Step, lacking: str) -> str:
    """Explain what a step lacks, without output of the desk: in which file, or that its check failed."""
    first = lacking.partition("\n")[0]
    absent = [path for path in step.makes if first.startswith("the step must write ") and path in first]
    if not absent:
        return "the program of the step ended, but the step's check failed"
    files = make_printable(", ".join(absent)[:300])
    return f"the program of the step did not create these files, which the plan lists under `makes`: {files}"
