"""Tests of replies, observations and histories as JSON: they round-trip, and nothing else is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hotdesk.brain.models.codec import (
    item_from_json,
    item_to_json,
    observation_from_json,
    observation_to_json,
    reply_from_json,
    reply_to_json,
)
from hotdesk.brain.models.seam import Item, OurMessage, Reply, Results, TokenUsage
from hotdesk.errors import ModelError
from hotdesk.tool import Call, Observation

CALL = Call("1", "read", {"path": ["a", 1, None, {"b": 1.5}]})
REPLY = Reply(
    "Words.", "Thought.", (CALL, Call("2", "x", "no JSON")), "calls", TokenUsage(1, 2, 3, 4, 5, 0.25), "anthropic:m",
    "anthropic", ({"type": "thinking", "signature": "s"},), "5e1f",
)  # fmt: skip
SEEN = Observation("text", False, bytes(range(256)), "image/png", "keyboard", "a note")


@pytest.mark.parametrize(
    "item",
    [
        OurMessage(""),
        OurMessage("a\ud7ff\n"),
        Reply(),
        REPLY,
        Results(()),
        Results(((CALL, SEEN), (CALL, Observation()))),
    ],
)
def test_an_item_comes_back_as_it_was(item: Item) -> None:
    assert item_from_json(json.loads(json.dumps(item_to_json(item)))) == item


def test_missing_fields_have_their_defaults() -> None:
    assert reply_from_json({}) == Reply()
    assert observation_from_json({"text": "x"}) == Observation("x")


@pytest.mark.parametrize(
    "wrong",
    [[], None, {"txt": "x"}, {"text": 1}, {"text": None}, {"stop": "gone"}, {"calls": {}}, {"calls": [{"id": "1"}]},
     {"calls": [{"id": 1, "tool": "a", "arguments": 1}]}, {"native": [1]}, {"usage": {"input": True}},
     {"usage": {"input": 1.5}}, {"usage": {"dollars": "1"}}, {"usage": {"more": 1}}, {"usage": None}],
)  # fmt: skip
def test_an_invalid_reply_is_refused(wrong: Any) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        reply_from_json(wrong)


@pytest.mark.parametrize(
    "wrong", [{"image": "no base64!"}, {"image": "é"}, {"ok": 1}, {"more": ""}, "x", {"image": None}]
)
def test_an_invalid_observation_is_refused(wrong: Any) -> None:
    with pytest.raises(ModelError, match="an observation cannot be read"):
        observation_from_json(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"told": 1},
        {"told": "x", "reply": {}},
        {"results": {}},
        {"results": [{"call": {}}]},
        {"results": [1]},
        "told",
    ],
)
def test_an_invalid_item_is_refused(wrong: Any) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        item_from_json(wrong)


def test_a_picture_is_written_as_base64() -> None:
    assert observation_to_json(SEEN)["image"].startswith("AAECAw")
    assert reply_to_json(REPLY)["usage"]["dollars"] == 0.25
