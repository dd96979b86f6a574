"""Reviews a plan with a model. Its findings are advice; they are read from prose as well as from calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from hotdesk.brain.models.seam import OurMessage, Reply
from hotdesk.brain.prompts import read_prompt
from hotdesk.brain.seam import Log
from hotdesk.brain.thinking import WINDOW, Ask, Thinking, format_list
from hotdesk.dataclass import dataclass
from hotdesk.plan import Plan, to_json
from hotdesk.strict import StrictError, parse_json
from hotdesk.tool import Parameter, Tool

REVIEWS = 2
"""Plans of one job that a critic reviews."""
_MOST_FINDINGS = 10
_LONGEST_FINDING = 500
FINDINGS = Tool(
    "findings",
    "Report the faults of the plan; an empty list if there are none.",
    (
        Parameter(
            "findings",
            "texts",
            "one sentence each: which step, what is wrong, what to do instead",
            required=True,
            longest=_LONGEST_FINDING,
        ),
    ),
    example={"findings": ["Step 'send' posts the report before any step checked it; check it in an earlier step."]},
)
_AGREES = re.compile(
    r"(?:(?:there (?:is|are) |i (?:have|see|find|found) )?(?:no|nothing|none)\b|(?:it |this |the plan )?"
    r"(?:is |looks )?(?:fine|good|ok|okay|sound|correct|complete|approved)\b|lgtm)",
    re.IGNORECASE,
)
_OBJECTS = re.compile(r"\b(?:but|however|except|although|though|step|should|must|missing|lacks?)\b", re.IGNORECASE)


@dataclass(slots=True)
class Critic:
    """Asks a model to review plans that it does not know to be its own; it sees its earlier findings."""

    ask: Ask
    log: Log
    task: str
    """The task as the planner got it."""
    cache: str
    window: int = WINDOW
    reviews: int = 0
    earlier: list[str] = field(default_factory=list)

    async def review(self, plan: Plan) -> tuple[str, ...]:
        """Return the findings against a plan; empty after `REVIEWS` reviews."""
        if self.reviews >= REVIEWS:
            return ()
        self.reviews += 1
        before = ""
        if self.earlier:
            before = f"\n\nYour findings about an earlier version of the plan:\n{format_list(self.earlier)}"
        prompt = f"{self.task}\n\nThe plan:\n{to_json(plan)}{before}\n\nWhat is wrong with the plan?"
        thinking = Thinking(
            self.ask, self.log, read_prompt("criticise"), (FINDINGS,), [OurMessage(prompt)], self.cache, self.window
        )
        reply = await thinking.ask_once()
        thinking.answer("Noted.")
        found = read_findings(reply)
        self.earlier += found
        return found


def read_findings(reply: Reply) -> tuple[str, ...]:
    """Return the findings in a critic's call or prose; a statement that nothing is wrong is not a finding."""
    if reply.stop == "refused":
        return ()
    calls = [call for call in reply.calls if call.tool == FINDINGS.name]
    found = [each for call in calls for each in _list_findings(call.arguments)] if calls else _read_prose(reply.text)
    findings = (each.strip()[:_LONGEST_FINDING] for each in found)
    return tuple(each for each in findings if each and not _agrees(each))[:_MOST_FINDINGS]


def _list_findings(arguments: object) -> list[str]:
    """Read the arguments of the tool; a text instead of the list is read as prose."""
    value = arguments.get("findings") if isinstance(arguments, Mapping) else arguments
    if isinstance(value, str):
        return _read_prose(value)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _read_prose(text: str) -> list[str]:
    """Split a critic's text into findings: JSON if it is JSON, otherwise one for each line."""
    begin, end = text.find("{"), text.rfind("}")
    if 0 <= begin < end:
        try:
            data = parse_json(text[begin : end + 1], duplicates=True)
        except StrictError:
            data = None
        if isinstance(data, dict) and isinstance(data.get("findings"), list):
            return [each for each in data["findings"] if isinstance(each, str)]
    if _agrees(text):
        return []
    return [each for line in text.splitlines() if (each := line.strip().lstrip("-*•0123456789.) ").strip())]


def _agrees(text: str) -> bool:
    return len(text) <= _LONGEST_FINDING and bool(_AGREES.match(text.strip())) and not _OBJECTS.search(text)
