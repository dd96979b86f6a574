"""Tests of when a request is repeated: an overload is waited out, other failures are not."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.providers.anthropic import anthropic_server, text
from tests.providers.openai import OpenAI
from tests.providers.server import Body, Trouble, serving

from hotdesk.brain.models.anthropic import AnthropicModel
from hotdesk.brain.models.client import Patience
from hotdesk.brain.models.openai import OpenAIModel
from hotdesk.brain.models.retry import LONGEST_BACKOFF_S, find_backoff, is_overload
from hotdesk.brain.models.seam import ModelRequest, OurMessage
from hotdesk.errors import ModelError

QUICK = Patience(connect=2, silence=2, retries=1, tries=2, longest=20, pause=0.01)
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
BROKEN = {"type": "error", "error": {"type": "api_error", "message": "Broken"}}
REQUEST = ModelRequest("", [OurMessage("Look.")])


def test_a_backoff_doubles_up_to_a_minute_and_varies() -> None:
    assert [find_backoff(0.5, tried) for tried in (0, 1, 4, 7, 10_000)] == [0.5, 1.0, 8.0, 60.0, LONGEST_BACKOFF_S]
    assert [find_backoff(1.0, 0, chance) for chance in (0.0, 1.0)] == [0.75, 1.25]


def test_only_an_overload_is_waited_out() -> None:
    assert [status for status in (400, 408, 409, 429, 500, 502, 503, 504, 529) if is_overload(status)] == [
        429, 502, 503, 504, 529,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("trouble", "count", "requests"),
    [
        (Trouble(529), 6, 7),
        (Trouble(429, retry_after="0"), 6, 7),
        (Trouble(cut=1, event=OVERLOADED, name="error"), 6, 7),
        (Trouble(500), 6, 2),
        (Trouble(cut=1, event=BROKEN, name="error"), 6, 2),
    ],
)
async def test_an_overload_is_waited_out_and_another_failure_repeated_a_few_times(
    trouble: Trouble, count: int, requests: int
) -> None:
    with anthropic_server(lambda body: [text("Yes.")]) as server:
        server.trouble += [trouble] * count
        model = AnthropicModel("claude-x", base_url=server.base_url, key="k", patience=QUICK)
        began = time.monotonic()
        if requests > count:
            assert (await model.ask(REQUEST)).text == "Yes."
            assert time.monotonic() - began >= 0.75 * 0.63  # also if the provider says not to wait
        else:
            with pytest.raises(ModelError):
                await model.ask(REQUEST)
        await model.close()
        assert len(server.requests) == requests


async def test_a_quota_that_is_used_up_is_not_waited_out() -> None:
    class Unpaid(OpenAI):
        """A server whose refusals are about an unpaid bill."""

        def error(self, status: int, why: str, param: str = "") -> Body:
            return {"error": {"message": why, "type": "insufficient_quota", "code": "insufficient_quota"}}

    with serving(Unpaid(lambda body: [], "/v1")) as server:
        server.trouble += [Trouble(429)] * 9
        model = OpenAIModel("gpt-x", base_url=server.base_url, key="k", patience=QUICK)
        with pytest.raises(ModelError, match="429"):
            await model.ask(REQUEST)
        await model.close()
        assert len(server.requests) == 2


async def test_with_another_model_an_overload_is_not_waited_out() -> None:
    with anthropic_server(lambda body: [text("Yes.")]) as server:
        server.trouble += [Trouble(529)] * 50
        patience = replace(QUICK, longest=60, alternative=1)
        model = AnthropicModel("claude-x", base_url=server.base_url, key="k", patience=patience)
        with pytest.raises(ModelError, match="status 529: the next attempt is due in"):
            await model.ask(replace(REQUEST, has_alternative=True))
        await model.close()
        assert len(server.requests) <= 8
