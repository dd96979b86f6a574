"""Detects a worker that makes no progress, from its calls and their results. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from typing import Literal, TypeAlias

from hotdesk.tool import Call, Observation

Verdict: TypeAlias = Literal["", "warn", "stop"]

WARN, STOP = 3, 6
"""Repetitions of the same calls with the same outcome that cause a warning, and that end the step."""
_PERIODS = range(1, 5)
"""Numbers of calls that one repetition may have."""
FAILED_WARN, FAILED_STOP = 8, 16
"""Failed calls in a row that cause a warning, and that end the step."""
SILENT = 3
"""Replies in a row without a call that end the step."""


class RepetitionWatcher:
    """Watches one step."""

    def __init__(self) -> None:
        self.why = ""
        """The reason of the last verdict, in words for a model."""
        self.marks: deque[bytes] = deque(maxlen=STOP * _PERIODS[-1])
        self.failed = 0
        self.silences = 0

    def judge_call(self, call: Call, observation: Observation) -> Verdict:
        self.silences = 0
        self.failed = 0 if observation.ok else self.failed + 1
        self.marks.append(mark(call, observation))
        found = [self.round(period) for period in _PERIODS] + [self.judge_failures()]
        verdict, self.why = max(found, key=lambda each: ("", "warn", "stop").index(each[0]))
        return verdict

    def note_silence(self) -> Verdict:
        """Judge a reply without a call."""
        self.silences += 1
        self.why = (
            "Your reply contained no tool call, so nothing happened. Call a tool; call finish when the step is done, "
            "or give_up if it cannot be done."
        )
        return "stop" if self.silences >= SILENT else "warn"

    def round(self, period: int) -> tuple[Verdict, str]:
        marks = list(self.marks)
        alike = 0
        while alike + period < len(marks) and marks[-1 - alike] == marks[-1 - alike - period]:
            alike += 1
        what = "the same call" if period == 1 else f"the same {period} calls"
        times = alike // period + 1
        why = (
            f"You made {what} {times} times with the same result. Repeating this will not change the result. Read "
            "the result, then try another way: other arguments, another tool, or ask_person. If the step cannot be "
            "done, call give_up and say why."
        )
        if alike >= period * (STOP - 1):
            return "stop", why
        return ("warn", why) if alike == period * (WARN - 1) else ("", "")

    def judge_failures(self) -> tuple[Verdict, str]:
        why = (
            f"Your last {self.failed} calls all failed or were refused. Read the last error: it says what is expected "
            "and what is allowed. Ask for what this step lacks with amend_plan. If the step cannot be done, call "
            "give_up and say why."
        )
        if self.failed >= FAILED_STOP:
            return "stop", why
        return ("warn", why) if self.failed == FAILED_WARN else ("", "")


def mark(call: Call, observation: Observation) -> bytes:
    """Return a digest that is equal for equal calls with equal outcomes, whatever the order of their arguments."""
    fields = [call.tool, canonicalize(call.arguments), observation.ok, observation.text, observation.note]
    digest = hashlib.sha256(json.dumps(fields).encode())
    digest.update(observation.image)
    return digest.digest()


def canonicalize(arguments: object) -> str:
    try:
        return json.dumps(arguments, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(arguments)
