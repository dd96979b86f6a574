"""Tests of what only OpenAI's driver does: computer use with safety checks, encrypted reasoning, nothing stored."""

from __future__ import annotations

from typing import Any

import pytest
from tests.providers.openai import computer, openai_server, text, thinking, tool

from hotdesk.brain.models.client import Patience
from hotdesk.brain.models.openai import OpenAIModel
from hotdesk.brain.models.openai_wire import BLANK, write_body
from hotdesk.brain.models.seam import LanguageModel, ModelRequest, OurMessage, Reply, Results
from hotdesk.errors import ModelError
from hotdesk.tool import Observation, Tool

LOOK = Tool("look", "Look.")
PNG = b"\x89PNG\r\n\x1a\nnot decoded by anybody here"
SHOT = Observation("clicked", image=PNG, media="image/png")
ONCE = Patience(connect=2, silence=2, retries=0, tries=1, longest=10)
CLICK = {"type": "click", "button": "left", "x": 1, "y": 2}
TYPE = {"type": "type", "text": "hello"}


def request(*history: Any, **more: Any) -> ModelRequest:
    return ModelRequest(
        "You work.", [OurMessage("Look."), *history], [LOOK], **{"screen": (1280, 800), "cache": "job-1", **more}
    )


def answer(reply: Reply, *seen: Observation) -> Results:
    return Results(tuple(zip(reply.calls, seen, strict=True)))


def driver(url: str) -> LanguageModel:
    return OpenAIModel("gpt-x", base_url=url, key="k", patience=ONCE)


@pytest.mark.slow
async def test_the_computer_is_used_in_batches_and_answered_with_a_picture() -> None:
    said = iter([[thinking("Hm."), computer(CLICK, TYPE), tool("look")], [text("Done.")]])
    with openai_server(lambda body: next(said)) as server:
        model = driver(server.base_url)
        reply = await model.ask(request())
        assert reply.calls[0].arguments == {"vendor": "openai", "actions": [CLICK, TYPE]}
        last = await model.ask(request(reply, answer(reply, SHOT, Observation("x"))))
        await model.close()
        assert last.text == "Done."
        first, second = server.requests
        assert (first["store"], first["prompt_cache_key"], first["include"]) == (
            False,
            "job-1",
            ["reasoning.encrypted_content"],
        )
        assert first["tools"][-1] == {"type": "computer"}
        assert second["input"][1:4] == list(reply.native)
        assert [item.get("type", "message") for item in second["input"][4:]] == [
            "computer_call_output",
            "function_call_output",
            "message",
        ]
        assert second["input"][4]["output"]["image_url"].startswith("data:image/png;base64,iVBOR")


async def test_safety_checks_are_shown_and_acknowledged_once_it_was_done() -> None:
    said = iter([[computer(CLICK, checks=("malicious_instructions",))], [text("Done.")]])
    with openai_server(lambda body: next(said)) as server:
        model = driver(server.base_url)
        reply = await model.ask(request())
        given: Any = reply.calls[0].arguments
        assert [check["code"] for check in given["checks"]] == ["malicious_instructions"]
        assert (await model.ask(request(reply, answer(reply, SHOT)))).text == "Done."
        await model.close()
        assert server.requests[1]["input"][2]["acknowledged_safety_checks"] == given["checks"]


async def test_a_safety_check_is_not_acknowledged_for_what_was_refused() -> None:
    said = iter([[thinking("Hm."), computer(CLICK, checks=("irrelevant_domain",))], [text("I see.")]])
    with openai_server(lambda body: next(said)) as server:
        model = driver(server.base_url)
        reply = await model.ask(request())
        refused = Observation("The operator refused this.", ok=False)
        assert (await model.ask(request(reply, answer(reply, refused)))).text == "I see."
        await model.close()
        told = str(server.requests[1])
        assert "acknowledged" not in told
        assert "The operator refused this." in told


async def test_without_a_picture_the_last_one_or_a_blank_one_is_sent() -> None:
    said = iter([[computer(CLICK)], [computer(TYPE)], [computer(TYPE)], [text("Done.")]])
    with openai_server(lambda body: next(said)) as server:
        model = driver(server.base_url)
        history: list[Any] = []
        for seen in (Observation("no point of the screen", ok=False), SHOT, Observation("wrong", ok=False)):
            reply = await model.ask(request(*history))
            history += [reply, answer(reply, seen)]
        assert (await model.ask(request(*history))).text == "Done."
        await model.close()
        items = server.requests[-1]["input"]
        shown = [item["output"]["image_url"] for item in items if item.get("type") == "computer_call_output"]
        assert shown[0] == BLANK
        assert shown[1] == shown[2] != BLANK
        assert "The computer's result: (this failed)" in str(items)


async def test_a_server_refuses_unacknowledged_checks_and_missing_reasoning() -> None:
    with openai_server(lambda body: [thinking("Hm."), computer(CLICK, checks=("c",))]) as server:
        model = driver(server.base_url)
        reply = await model.ask(request())
        silent = Reply(
            calls=(type(reply.calls[0])(reply.calls[0].id, "computer", {}),),
            model=reply.model,
            dialect="openai",
            native=reply.native,
        )
        hasty = Reply(calls=reply.calls, model=reply.model, dialect="openai", native=reply.native[1:])
        sly = Reply(
            calls=reply.calls,
            model=reply.model,
            dialect="openai",
            native=({**reply.native[0], "encrypted_content": "x"}, reply.native[1]),
        )
        for wrong, why in (
            (silent, "must be acknowledged"),
            (hasty, "required 'reasoning' item"),
            (sly, "is not what was said"),
        ):
            with pytest.raises(ModelError, match=why):
                await model.ask(request(wrong, answer(wrong, SHOT)))
        await model.close()


@pytest.mark.parametrize(
    ("model", "think", "told"),
    [("gpt-5.4", True, {"summary": "auto"}), ("gpt-5.4", False, {"effort": "low"}), ("gpt-4.1", True, None)],
)
def test_each_model_gets_the_reasoning_effort_it_supports(model: str, think: bool, told: object) -> None:
    asked = write_body(request(think=think), model, f"openai:{model}")
    assert asked.get("reasoning") == told
    assert ("include" in asked) is (told is not None)
