"""Learn from a provider's refusal which features of a model to leave out next time. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from hotdesk.brain.models.capabilities import Capabilities
from hotdesk.dataclass import dataclass

Change: TypeAlias = Mapping[str, object]
"""Capabilities that differ from the assumed ones, by name."""
UNBOUND: Change = {"preserved": "none"}
"""Thinking was sent back where it is not valid: this concerns one conversation, and is not remembered."""
_UNKNOWN = r"extra inputs are not permitted|unknown parameter|unsupported parameter|not support|unrecognized|unexpected"


@dataclass(frozen=True, slots=True)
class RefusalRule:
    """How providers report that one feature is refused, and the change that follows."""

    pattern: re.Pattern[str]
    change: Callable[[Capabilities, re.Match[str]], Change]


def _make_rule(pattern: str, change: Callable[[Capabilities, re.Match[str]], Change]) -> RefusalRule:
    return RefusalRule(re.compile(pattern, re.IGNORECASE | re.DOTALL), change)


def _limit_output(capabilities: Capabilities, found: re.Match[str]) -> Change:
    limit = int(found["limit"])
    return {"output": limit} if 256 <= limit < capabilities.output else {}


def _change_thinking(capabilities: Capabilities, found: re.Match[str]) -> Change:
    """Choose the next simpler way of thinking, or the one that the provider names."""
    if capabilities.thinking == "budget" and "adaptive" in found.string:
        return {"thinking": "adaptive"}
    simpler = {"adaptive": "budget" if "adaptive" in found.string else "none"}
    return {} if capabilities.thinking == "none" else {"thinking": simpler.get(capabilities.thinking, "none")}


def _change_summary(capabilities: Capabilities, found: re.Match[str]) -> Change:
    return {"summary": False} if capabilities.summary else {}


def _change_effort(capabilities: Capabilities, found: re.Match[str]) -> Change:
    return {"efforts": (), "effort": None} if capabilities.efforts else {}


def _change_computer(capabilities: Capabilities, found: re.Match[str]) -> Change:
    return {"computer": ""} if capabilities.computer else {}


def _change_images(capabilities: Capabilities, found: re.Match[str]) -> Change:
    return {"images": False} if capabilities.images else {}


RULES: tuple[RefusalRule, ...] = (
    _make_rule(r"invalid `?signature`? in `?thinking`? block|bound to a different conversation", lambda *_: UNBOUND),
    _make_rule(r"max_tokens: \d+ > (?P<limit>\d+)", _limit_output),
    _make_rule(r"max(_output|_completion)?_tokens.*?(at most|less than or equal to|<=) (?P<limit>\d+)", _limit_output),
    _make_rule(
        r"max_tokens.*(not supported|unsupported).*max_completion_tokens",
        lambda capabilities, _: {} if capabilities.completion_limit else {"completion_limit": True},
    ),
    _make_rule(r"reasoning\.summary|verified to generate reasoning summaries", _change_summary),
    _make_rule(rf"thinking[\w.]*\.display[^.]*({_UNKNOWN})", _change_summary),
    _make_rule(r"thinking\.type[\w.]*\W+(is )?not support|adaptive thinking is not support", _change_thinking),
    _make_rule(r"reasoning\.effort|not support the effort", _change_effort),
    _make_rule(rf"output_config(\.effort)?[^.]{{0,80}}({_UNKNOWN})", _change_effort),
    _make_rule(rf"(thinking|reasoning|encrypted content)[^.]{{0,80}}({_UNKNOWN})", _change_thinking),
    _make_rule(rf"({_UNKNOWN})[^.]{{0,80}}(thinking|reasoning|encrypted)", _change_thinking),
    _make_rule(r"not support[^.]*computer|computer[^.]{0,60}not support|tag 'computer_", _change_computer),
    _make_rule(r"tools\[\d+\]\.type|invalid value: '?computer", _change_computer),
    _make_rule(r"(image|vision|multimodal)[^.]{0,60}(not support|only supported)", _change_images),
    _make_rule(r"not support[^.]{0,40}(image|vision)|missing data required for image", _change_images),
    _make_rule(
        rf"prompt_cache_key[^.]{{0,60}}({_UNKNOWN})|({_UNKNOWN})[^.]{{0,40}}prompt_cache_key",
        lambda capabilities, _: {"cache_key": False} if capabilities.cache_key else {},
    ),
)
"""In the order they are tried: the first that changes something counts."""


def find_change(capabilities: Capabilities, message: str) -> Change:
    """Return the change that a refusal suggests; empty if no feature can be left out."""
    for rule in RULES:
        if (found := rule.pattern.search(message)) and (change := rule.change(capabilities, found)):
            return change
    return {}


def describe_change(change: Change) -> str:
    words = {
        "output": "replies are limited to {:,} tokens",
        "thinking": "thinking is requested as `{}`",
        "summary": "no summary of the model's thinking is requested",
        "efforts": "no effort level is requested",
        "computer": "the model gets the screen_ tools instead of its own computer tool",
        "images": "no pictures are sent to the model",
        "completion_limit": "the reply limit is sent as max_completion_tokens",
        "cache_key": "prompt_cache_key is not sent",
        "preserved": "earlier thinking is left out of this conversation",
    }
    return "; ".join(words[name].format(value) for name, value in change.items() if name in words)
