"""Tests of vision models: the vendors' own libraries against a loopback server that speaks their protocols."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.upstream import Upstream, upstream

from hotdesk.brain import vision as module
from hotdesk.brain.models.prices import ModelPrice, Prices
from hotdesk.brain.vision import make_eyes
from hotdesk.errors import BriefError, HostError

IMAGE = b"\x89PNG\r\n\x1a\nnot decoded by anybody here"
JSON = {"Content-Type": "application/json"}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "content": [{"type": "text", "text": "A bar "}, {"type": "text", "text": "of 42."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 5},
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m-1",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "A bar of 42.", "annotations": []}],
        }
    ],
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    },
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
MAKERS = {"anthropic": ("/v1/messages", MESSAGE), "openai": ("/v1/responses", RESPONSE)}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    with upstream(tmp_path, "model.test", tls=False) as made:
        for name in ("ANTHROPIC", "OPENAI"):
            monkeypatch.setenv(f"{name}_API_KEY", f"key-of-{name}")
            monkeypatch.setenv(f"{name}_BASE_URL", f"http://{made.address}" + ("/v1" if name == "OPENAI" else ""))
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield made


def answer(server: Upstream, maker: str, status: int = 200, value: object = None) -> None:
    path, usual = MAKERS[maker]
    server.answers[path] = (status, JSON, json.dumps(usual if value is None else value).encode())


@pytest.mark.parametrize("maker", MAKERS)
async def test_a_model_is_asked_with_the_picture_as_it_is(server: Upstream, maker: str) -> None:
    answer(server, maker)
    assert await make_eyes(f"{maker}:m-1").ask(IMAGE, "image/png", "How high?") == "A bar of 42."
    [seen] = server.seen
    assert (seen.method, seen.path) == ("POST", MAKERS[maker][0])
    key = seen.header("X-Api-Key") or seen.header("Authorization") or ""
    assert key.endswith(f"key-of-{maker.upper()}")
    asked = json.loads(seen.body)
    assert asked["model"] == "m-1"
    assert base64.b64encode(IMAGE).decode() in seen.body.decode()
    assert "How high?" in seen.body.decode()
    assert module.TOKENS in (asked.get("max_tokens"), asked.get("max_output_tokens"))
    assert module.ORDER in (asked.get("system"), asked.get("instructions"))


@pytest.mark.parametrize("maker", MAKERS)
async def test_an_answer_comes_with_what_it_cost(server: Upstream, maker: str) -> None:
    answer(server, maker)
    prices = Prices({f"{maker}:m-1": ModelPrice(1e6, 2e6)})
    reply = await make_eyes(f"{maker}:m-1", prices).look(IMAGE, "image/png", "How high?")
    assert (reply.text, reply.model) == ("A bar of 42.", f"{maker}:m-1")
    used = reply.usage
    assert (used.input, used.output, used.dollars, used.up) == (10, 5, 20.0, len(server.seen[0].body))


@pytest.mark.parametrize("maker", MAKERS)
async def test_a_request_without_an_answer_still_counts(server: Upstream, maker: str) -> None:
    answer(server, maker, 400, {"error": {"type": "invalid_request_error", "message": "too large"}})
    reply = await make_eyes(f"{maker}:m-1").look(IMAGE, "image/png", "How high?")
    assert (reply.stop, "could not be called" in reply.text) == ("refused", True)
    assert reply.usage.up == len(server.seen[0].body)


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    ("status", "value", "why"),
    [
        (401, {"error": {"type": "authentication_error", "message": "no such key"}}, "AuthenticationError"),
        (400, {"error": {"type": "invalid_request_error", "message": "too \x1b large"}}, "BadRequestError"),
        (200, MESSAGE | RESPONSE | {"content": [], "output": []}, "sent an empty reply"),
        (200, [], "could not be called"),
    ],
)
async def test_a_model_without_an_answer_is_reported_to_the_operator(
    server: Upstream, maker: str, status: int, value: object, why: str
) -> None:
    answer(server, maker, status, value)
    with pytest.raises(HostError, match=why) as told:
        await make_eyes(f"{maker}:m-1").ask(IMAGE, "image/png", "How high?")
    assert str(told.value).isprintable()


@pytest.mark.parametrize("maker", MAKERS)
async def test_without_a_key_no_request_is_sent(server: Upstream, maker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{maker.upper()}_API_KEY")
    answer(server, maker)
    with pytest.raises(HostError, match="could not be called"):
        await make_eyes(f"{maker}:m-1").ask(IMAGE, "image/png", "How high?")
    assert server.seen == []


@pytest.mark.parametrize("name", ["", "anthropic", "anthropic:", "other:m-1", ":m"])
def test_a_name_that_names_no_model_is_refused(name: str) -> None:
    with pytest.raises(BriefError, match="anthropic:MODEL or openai:MODEL"):
        make_eyes(name)


@pytest.mark.parametrize("maker", MAKERS)
async def test_no_remote_model_is_called_in_a_test(
    server: Upstream, maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{maker.upper()}_BASE_URL", "http://model.test/v1")
    monkeypatch.setenv("HTTP_PROXY", f"http://{server.address}")
    with pytest.raises(HostError, match="only models on this machine"):
        await make_eyes(f"{maker}:m-1").ask(IMAGE, "image/png", "How high?")
    assert server.seen == []
