"""What a worker can do beside its hands: each example is right, and only what was fixed can be chosen."""

from __future__ import annotations

import pytest

from hotdesk.brain.own_tools import AMEND_PLAN, NAMES, OWN, OWN_WITH_MEMORY, RECALL, choose_tool
from hotdesk.plan import Action
from hotdesk.tool import Tool, ToolArgumentError

ACTIONS = (Action("reply", "shell", {"command": "./reply"}), Action("archive", "shell", {"command": "./archive"}))


@pytest.mark.parametrize("tool", [*OWN_WITH_MEMORY, choose_tool(ACTIONS)], ids=lambda tool: tool.name)
def test_every_example_is_right_and_nothing_at_all_is_not(tool: Tool) -> None:
    assert tool.check(tool.example).items() >= tool.example.items()
    with pytest.raises(ToolArgumentError, match="For example"):
        tool.check({})
    assert tool.name in NAMES


def test_only_what_was_fixed_can_be_chosen() -> None:
    tool = choose_tool(ACTIONS)
    assert tool.check({"action": "archive"}) == {"action": "archive"}
    with pytest.raises(ToolArgumentError, match="one of reply, archive"):
        tool.check({"action": "delete"})
    with pytest.raises(ValueError, match="no actions to choose from"):
        choose_tool([])


def test_an_amendment_may_ask_for_one_thing_alone() -> None:
    given = {"reason": "moved", "tools": ["browser_open"]}
    assert AMEND_PLAN.check(given) == given


def test_a_recall_gives_a_few_lines_unless_told() -> None:
    assert RECALL.check({"query": "x"}) == {"query": "x", "limit": 8}


def test_where_a_brief_has_a_memory_only_remember_and_keep_file_differ() -> None:
    assert [tool.name for tool in OWN_WITH_MEMORY] == [*(tool.name for tool in OWN), "keep_file"]
    assert [tool.name for tool in OWN_WITH_MEMORY if tool not in OWN] == ["remember", "keep_file"]
