"""Tests of what only the chat completions driver does: tolerate differences between servers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.providers.chat import chat_server, text, thinking, tool
from tests.providers.server import Trouble

from hotdesk.brain.models.chat import Chat
from hotdesk.brain.models.chat_wire import extend_call, gather, read_reply
from hotdesk.brain.models.client import Events, Patience, ReplyCutError
from hotdesk.brain.models.seam import ModelRequest, OurMessage, RequestTooLongError, Results
from hotdesk.errors import BriefError, ModelError
from hotdesk.tool import Observation, Tool

LOOK = Tool("look", "Look.")
PNG = b"\x89PNG\r\n\x1a\nnot decoded by anybody here"
ONCE = Patience(connect=2, silence=2, retries=0, tries=1, longest=10)


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
async def test_reasoning_is_returned_under_the_field_name_it_came_with(key: str) -> None:
    said = iter([[thinking("Hm.", key), tool("look")], [text("Done.")]])
    with chat_server(lambda body: next(said)) as server:
        model = Chat("m-vision", base_url=server.base_url, patience=ONCE)
        first = await model.ask(ModelRequest("", [OurMessage("Look.")], [LOOK]))
        assert first.thought == "Hm."
        seen = Results(((first.calls[0], Observation("x", image=PNG, media="image/png")),))
        assert (await model.ask(ModelRequest("", [OurMessage("Look."), first, seen], [LOOK]))).text == "Done."
        await model.close()
        roles = [message["role"] for message in server.requests[1]["messages"]]
        assert roles == ["user", "assistant", "tool", "user"]
        assert server.requests[1]["messages"][1][key] == "Hm."


@pytest.mark.slow
async def test_a_model_that_never_ends_is_stopped() -> None:
    with chat_server(lambda body: [text("x" * (6 << 20))] * 3) as server:
        model = Chat("m", base_url=server.base_url, patience=ONCE)
        with pytest.raises(ModelError, match="the reply is larger than 16 MiB"):
            await model.ask(ModelRequest("", [OurMessage("Look.")]))
        await model.close()


async def events(*told: dict[str, Any]) -> Events:
    for each in told:
        yield each


def choice(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}


def use(name: str, given: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": given}, **more}]}


async def test_calls_with_missing_or_duplicate_ids_get_their_own() -> None:
    told = events(
        choice(use("a", "{}", index=0, id="same")), choice(use("b", "", index=1, id="same")),
        choice(use("c", "[1]", index=2)), choice({}, "stop"),
    )  # fmt: skip
    said = read_reply(await gather(told), "chat:m")
    assert [(call.tool, call.arguments) for call in said.calls] == [("a", {}), ("b", {}), ("c", [1])]
    assert len({call.id for call in said.calls}) == 3
    assert said.stop == "calls"
    sent = [each["function"]["arguments"] for each in said.native[0]["tool_calls"]]
    assert sent == ["{}", "{}", '{"arguments": "[1]"}']


def test_chunks_without_an_index_belong_to_the_last_call() -> None:
    calls: list[dict[str, str]] = []
    for piece in (
        {"id": "1", "function": {"name": "a"}},
        {"function": {"arguments": "{}"}},
        {"id": "2", "function": {"name": "b"}},
    ):
        extend_call(calls, piece)
    assert [(each["name"], each["arguments"]) for each in calls] == [("a", "{}"), ("b", "")]


def test_a_call_with_an_absurd_index_is_ignored() -> None:
    calls: list[dict[str, str]] = []
    extend_call(calls, {"index": 10**9, "function": {"name": "a"}})
    extend_call(calls, {"index": -1, "function": {"name": "a"}})
    assert calls == []


async def test_an_answer_without_an_end_counts_as_interrupted() -> None:
    with pytest.raises(ReplyCutError):
        await gather(events(choice({"content": "Half of"})))


async def test_the_reply_limit_is_what_the_request_leaves_of_the_window() -> None:
    with chat_server(lambda body: [text("Yes.")]) as server:
        model = Chat("m", base_url=server.base_url, window=4000, patience=ONCE)
        for asked in ("Short?", "Long? " * 1000, "Too long? " * 2000):
            await model.ask(ModelRequest("", [OurMessage(asked)], tokens=16_000))
        await model.close()
        short, long, too_long = (body["max_tokens"] for body in server.requests)
    assert 3900 < short < 4000
    assert 1900 < long < 2000
    assert too_long == 256


async def test_tools_that_do_not_fit_the_window_are_refused_before_sending() -> None:
    with chat_server(lambda body: [text("Yes.")]) as server:
        model = Chat("m", base_url=server.base_url, window=2000, patience=ONCE)
        tools = [Tool(f"tool{n}", "Does something that takes a sentence to say.") for n in range(100)]
        why = r"take [\d,]+ tokens, but the context window has 2,000; list fewer tools"
        with pytest.raises(ModelError, match=why):
            await model.ask(ModelRequest("", [OurMessage("Look.")], tools))
        await model.close()
        assert server.requests == []


async def test_a_server_that_says_its_window_is_smaller_is_understood() -> None:
    said = "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it"
    with chat_server(lambda body: [text("Yes.")]) as server:
        server.trouble.append(Trouble(400, why=said))
        model = Chat("m", base_url=server.base_url, patience=ONCE)
        with pytest.raises(ModelError, match=r"does not fit the model's context window: .*HOTDESK_CHAT_WINDOW"):
            await model.ask(ModelRequest("", [OurMessage("Look.")]))
        await model.close()


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        ("qwen2.5-coder:7b", False),
        ("llama3.3", False),
        ("mistral-small", False),
        ("qwen2.5vl:7b", True),
        ("Qwen3-VL-8B", True),
        ("llama3.2-vision", True),
        ("gemma3:12b", True),
    ],
)
def test_vision_of_a_self_hosted_model_follows_from_its_name_or_a_setting(
    model: str, sees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOTDESK_CHAT_IMAGES", raising=False)
    assert Chat(model, base_url="http://127.0.0.1:1/v1").sees == sees
    for value in ("0", "1"):
        monkeypatch.setenv("HOTDESK_CHAT_IMAGES", value)
        assert Chat(model, base_url="http://127.0.0.1:1/v1").sees == (value == "1")
    monkeypatch.setenv("HOTDESK_CHAT_IMAGES", "yes")
    with pytest.raises(BriefError, match=r"set it to 1 .* or 0"):
        Chat(model, base_url="http://127.0.0.1:1/v1")


def test_the_window_of_a_self_hosted_server_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTDESK_CHAT_WINDOW", "8192")
    assert Chat("m", base_url="http://127.0.0.1:1/v1").window == 8192
    assert Chat("m", base_url="http://127.0.0.1:1/v1", window=5000).window == 5000


@pytest.mark.parametrize("told", ["8k", "12", "-1", "٨١٩٢"])
def test_an_invalid_window_is_refused(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTDESK_CHAT_WINDOW", told)
    with pytest.raises(BriefError, match=r"HOTDESK_CHAT_WINDOW is .* at least 1000, such as 16000"):
        Chat("m", base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("stop", "given", "expected"),
    [
        ("length", ["{}", ""], ["a"]),
        ("length", ["", "{}"], ["a", "b"]),
        ("length", ['{"x": 1}', '{"x'], ["a"]),
        ("tool_calls", ["", ""], ["a", "b"]),
    ],
)
async def test_a_call_that_was_cut_off_before_its_arguments_is_no_call(
    stop: str, given: list[str], expected: list[str]
) -> None:
    pieces = [choice(use(name, each, index=n)) for n, (name, each) in enumerate(zip("ab", given, strict=True))]
    said = read_reply(await gather(events(*pieces, choice({}, stop))), "chat:m")
    assert [call.tool for call in said.calls] == expected
    assert len(said.native[0]["tool_calls"]) == len(expected)


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(400, why="This model's maximum context length is 4096 tokens"),
        Trouble(413, why="the body is too large"),
        Trouble(400, why="input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    ],
)
async def test_a_request_that_does_not_fit_is_told_apart(trouble: Trouble) -> None:
    with chat_server(lambda body: [text("Yes.")]) as server:
        server.trouble.append(trouble)
        model = Chat("m", base_url=server.base_url, patience=ONCE)
        with pytest.raises(RequestTooLongError):
            await model.ask(ModelRequest("", [OurMessage("Look.")]))
        await model.close()
