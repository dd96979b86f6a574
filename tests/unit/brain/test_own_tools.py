"""Tests of a worker's own tools: each example is valid, and only fixed actions can be chosen."""

from __future__ import annotations

import pytest

from hotdesk.brain.own_tools import AMEND_PLAN, CHOOSE, NAMES, OWN, OWN_WITH_MEMORY, RECALL
from hotdesk.tool import Tool, ToolArgumentError


@pytest.mark.parametrize("tool", [*OWN_WITH_MEMORY, CHOOSE], ids=lambda tool: tool.name)
def test_every_example_is_valid_and_empty_arguments_are_not(tool: Tool) -> None:
    assert tool.check(tool.example).items() >= tool.example.items()
    with pytest.raises(ToolArgumentError, match="For example"):
        tool.check({})
    assert tool.name in NAMES


def test_an_amendment_may_ask_for_one_thing_alone() -> None:
    given = {"reason": "moved", "tools": ["browser_open"]}
    assert AMEND_PLAN.check(given) == given


def test_a_recall_returns_a_few_lines_by_default() -> None:
    assert RECALL.check({"query": "x"}) == {"query": "x", "limit": 8}


def test_a_memory_adds_only_remember_and_keep_file() -> None:
    assert [tool.name for tool in OWN_WITH_MEMORY] == [*(tool.name for tool in OWN), "keep_file"]
    assert [tool.name for tool in OWN_WITH_MEMORY if tool not in OWN] == ["remember", "keep_file"]
