"""Divide a model's window between instructions, conversation and reply. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hotdesk.brain.compaction import estimate_json_tokens, estimate_text_tokens
from hotdesk.brain.compaction import estimate_tokens as item_tokens
from hotdesk.brain.models.seam import REPLY, ModelRequest
from hotdesk.brain.seam import Situation
from hotdesk.dataclass import dataclass
from hotdesk.tool import Tool

SHARE = 0.7
"""The largest share of a window for the conversation."""
SUMMARIES = 0.2
"""The largest share of a window for the summaries of other steps."""
_MIN_FREE_SHARE = 0.5
"""The share of a window that must remain for conversation and reply; otherwise tools are described in fewer words."""
LEAST_REPLY = 256
LARGE_WINDOW = 100_000
"""Tokens of a window that has room for a long reply."""
LONG_REPLY = 32_000
"""Tokens of the longest reply in a large window: it includes the model's thinking and the programs it writes."""
_MAX_ESTIMATES = 1024
FRAME = 24
"""Tokens of a tool's declaration beside its texts."""


@dataclass(frozen=True, slots=True)
class WindowShares:
    tools: tuple[Tool, ...]
    """The tools, in fewer words if their descriptions would leave too little room."""
    conversation: int
    reply: int
    """Tokens of the longest reply."""


def share_out(window: int, system: str, tools: Sequence[Tool]) -> WindowShares:
    """Divide the window into shares; whether a request fits is up to its sender."""
    shown = tuple(tools)
    if not has_room(window, system, shown):
        shown = tuple(shorten_tool(tool) for tool in tools)
    remaining = max(window - estimate_fixed_tokens(system, shown), 0)
    longest = LONG_REPLY if window >= LARGE_WINDOW else REPLY
    reply = max(min(longest, remaining // 3), LEAST_REPLY)
    return WindowShares(shown, max(min(int(window * SHARE), remaining - reply), 0), reply)


def has_room(window: int, system: str, tools: Sequence[Tool]) -> bool:
    """Return whether instructions and tools leave enough of a window for the work."""
    return window - estimate_fixed_tokens(system, tools) >= _MIN_FREE_SHARE * window


def estimate_fixed_tokens(system: str, tools: Sequence[Tool]) -> int:
    """Estimate the tokens of the fixed part of every request; the estimate is high."""
    return estimate_text_tokens(system) + sum(map(_estimate_tool_tokens, tools))


_estimates: dict[int, tuple[Tool, int]] = {}
"""Estimates of tools by identity: thousands of workers share them. Each tool is stored, so that no id is reused."""


def _estimate_tool_tokens(tool: Tool) -> int:
    if (found := _estimates.get(id(tool))) is not None:
        return found[1]
    estimate = FRAME + estimate_text_tokens(tool.name + tool.what) + estimate_json_tokens(tool.build_schema())
    if len(_estimates) >= _MAX_ESTIMATES:
        _estimates.clear()
    _estimates[id(tool)] = (tool, estimate)
    return estimate


def request_tokens(request: ModelRequest) -> int:
    """Estimate the tokens of a request, without its reply."""
    return estimate_fixed_tokens(request.system, request.tools) + sum(map(item_tokens, request.history))


def shorten_tool(tool: Tool) -> Tool:
    """Return a tool with a shorter description, and parameters without any: the error of a wrong call has the rest."""
    first = tool.what.partition(". ")[0].rstrip(".") + "."
    return replace(tool, what=first, parameters=tuple(replace(each, what="") for each in tool.parameters))


def shorten_summaries(situation: Situation, window: int) -> Situation:
    """Return a situation whose summaries of steps take at most their share of a window; short ones stay whole.

    They are in the first message of a conversation, which is never compacted.
    """
    names = [name for name, _ in situation.summaries]
    texts = _shorten_texts(
        [*(text for _, text in situation.summaries), situation.last_summary], int(window * SUMMARIES)
    )
    return replace(situation, summaries=tuple(zip(names, texts[:-1], strict=True)), last_summary=texts[-1])


def _shorten_texts(texts: Sequence[str], tokens: int) -> list[str]:
    """Shorten the longest texts to one length, so that all of them together take at most this many tokens."""
    longest, remaining = tokens, tokens
    for number, cost in enumerate(sorted(map(estimate_text_tokens, texts))):
        longest = remaining // (len(texts) - number)
        if cost > longest:
            break
        remaining -= cost
    else:
        return list(texts)
    return [_cut_middle(text, longest) for text in texts]


def _cut_middle(text: str, tokens: int) -> str:
    cost = estimate_text_tokens(text)
    if cost <= tokens:
        return text
    half = len(text) * tokens // cost // 2
    gap = f"\n[… {len(text) - 2 * half:,} characters are left out here; search them with recall …]\n"
    return text[:half] + gap + text[len(text) - half :]
