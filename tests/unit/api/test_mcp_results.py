"""Tests of tool results for MCP clients."""

from __future__ import annotations

from tests.mcp_served import text_of

from hotdesk.api.mcp.results import MAX_IMAGE_BYTES, ToolAnswer, make_result
from hotdesk.tool import Observation


def test_a_picture_that_is_too_large_is_left_out_with_a_reason() -> None:
    size = MAX_IMAGE_BYTES + 1
    seen = make_result(ToolAnswer(observation=Observation("taken", image=bytes(size), media="image/png")))
    assert [each.type for each in seen.content] == ["text", "text"]
    assert f"The picture was left out: it has {size:,} bytes, and at most {MAX_IMAGE_BYTES:,}" in text_of(seen)
    assert "jpeg" in text_of(seen)


def test_a_picture_within_the_limit_is_returned() -> None:
    picture = Observation("taken", image=bytes(MAX_IMAGE_BYTES), media="image/png")
    assert [each.type for each in make_result(ToolAnswer(observation=picture)).content] == ["text", "image"]
