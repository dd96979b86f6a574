"""Tests of features a provider refuses: each is omitted from then on, and remembered in the process and in a file."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.providers import anthropic as a
from tests.providers import chat as c
from tests.providers import openai as o
from tests.providers.rules import NEW, OLD, REASONING, ModelRules
from tests.providers.server import Body, Trouble

from hotdesk.brain.models.anthropic import AnthropicModel
from hotdesk.brain.models.capabilities import DEFAULTS, find_capabilities
from hotdesk.brain.models.chat import Chat
from hotdesk.brain.models.client import Patience
from hotdesk.brain.models.learned import FILE, KEEP_SECONDS, MAX_MODELS, LearnedLimits
from hotdesk.brain.models.openai import OpenAIModel
from hotdesk.brain.models.refusals import UNBOUND, find_change
from hotdesk.brain.models.seam import ModelRequest, OurMessage, Reply, Results
from hotdesk.errors import ModelError
from hotdesk.tool import Observation, Tool

LOOK = Tool("look", "Look.")
SHOT = Tool("screen_screenshot", "See the screen.")
PNG = b"\x89PNG\r\n\x1a\nnot decoded by anybody here"
ONCE = Patience(connect=2, silence=5, retries=0, tries=1, longest=20)


def request(*history: Any, **more: Any) -> ModelRequest:
    asked = {"screen": (1280, 800), "screen_tools": [SHOT], **more}
    return ModelRequest("You work.", [OurMessage("Look."), *history], [LOOK], **asked)


def shown(reply: Reply) -> Results:
    return Results(tuple((call, Observation("here", image=PNG, media="image/png")) for call in reply.calls))


@pytest.mark.parametrize(
    ("rules", "field", "value"),
    [
        (replace(NEW, output=4096), "max_tokens", 4096),
        (OLD, "thinking", {"type": "enabled", "budget_tokens": 4000}),
        (replace(OLD, thinking=()), "thinking", None),
        (replace(NEW, computer=False), "tools", ["look", "screen_screenshot"]),
    ],
)
async def test_features_a_claude_model_refuses_are_omitted(rules: ModelRules, field: str, value: object) -> None:
    told: list[str] = []
    with a.anthropic_server(lambda body: [a.text("Yes.")]) as server:
        server.rules = rules
        model = AnthropicModel("claude-new", base_url=server.base_url, key="k", patience=ONCE, notify=told.append)
        reply = await model.ask(request(tokens=8000))
        assert (reply.text, bool(reply.notes)) == ("Yes.", True)
        await model.ask(request(tokens=8000))
        await model.close()
    tries, sent = len(server.refusals), server.requests[-1].get(field)
    assert 1 <= tries <= 3
    assert len(server.requests) == tries + 2, "the second request was right at once"
    assert (names(sent) if field == "tools" else sent) == value
    assert len(told) == tries
    assert all("the provider refused a part of the request" in each for each in told)


def names(tools: Any) -> list[str]:
    return [tool.get("name", tool.get("type")) for tool in tools]


@pytest.mark.slow
async def test_an_organisation_that_is_not_verified_is_asked_without_summaries() -> None:
    with o.openai_server(lambda body: [o.text("Yes.")]) as server:
        server.rules = replace(REASONING, summaries=False)
        model = OpenAIModel("gpt-5.4", base_url=server.base_url, key="k", patience=ONCE)
        reply = await model.ask(request())
        await model.close()
    assert "must be verified to generate reasoning summaries" in reply.notes[0]
    assert [body.get("reasoning") for body in server.requests] == [{"summary": "auto"}, None]
    assert server.requests[1]["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize(
    ("rules", "field", "value"),
    [
        (replace(REASONING, thinking=()), "include", None),
        (replace(REASONING, output=2048), "max_output_tokens", 2048),
        (replace(REASONING, computer=False), "tools", ["look", "screen_screenshot"]),
    ],
)
async def test_features_a_gpt_model_refuses_are_omitted(rules: ModelRules, field: str, value: object) -> None:
    with o.openai_server(lambda body: [o.text("Yes.")]) as server:
        server.rules = rules
        model = OpenAIModel("gpt-new", base_url=server.base_url, key="k", patience=ONCE)
        assert (await model.ask(request(tokens=8000))).text == "Yes."
        await model.close()
    sent = server.requests[-1].get(field)
    assert (names(sent) if field == "tools" else sent) == value


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_model_without_vision_is_told_that_there_was_a_picture(kind: str) -> None:
    def say(body: Body) -> list[Body]:
        made: Any = a if kind == "anthropic" else o
        return [made.text("I see no picture.")] if "here" in json.dumps(body) else [made.tool("look")]

    serve: Any = a.anthropic_server if kind == "anthropic" else o.openai_server
    make: Any = AnthropicModel if kind == "anthropic" else OpenAIModel
    with serve(say) as server:
        server.rules = replace(NEW if kind == "anthropic" else REASONING, images=False)
        model = make("blind", base_url=server.base_url, key="k", patience=ONCE)
        first = await model.ask(request())
        last = await model.ask(request(first, shown(first)))
        assert last.text == "I see no picture."
        assert "no pictures are sent to the model" in last.notes[0]
        await model.close()
        assert "This model cannot see pictures" in json.dumps(server.requests[-1])


async def test_a_chat_server_names_its_limit_or_wants_it_under_another_name() -> None:
    with c.chat_server(lambda body: [c.text("Yes.")]) as server:
        server.trouble += [Trouble(400, why="max_tokens is too large: 9000. This model supports at most 512 tokens")]
        model = Chat("m", base_url=server.base_url, patience=ONCE)
        await model.ask(ModelRequest("", [OurMessage("Look.")], tokens=9000))
        assert server.requests[-1]["max_tokens"] == 512
        why = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        server.trouble += [Trouble(400, why=why)]
        await model.ask(ModelRequest("", [OurMessage("Look.")]))
        await model.close()
        assert server.requests[-1]["max_completion_tokens"] == 512


async def test_a_refusal_that_names_no_feature_is_not_tried_again() -> None:
    with a.anthropic_server(lambda body: []) as server:
        server.trouble += [Trouble(400, why="messages.3: something is wrong with your account")]
        model = AnthropicModel("claude-x", base_url=server.base_url, key="k", patience=ONCE)
        with pytest.raises(ModelError, match="something is wrong"):
            await model.ask(request())
        await model.close()
        assert len(server.requests) == 1


async def test_refused_features_are_remembered_across_processes_for_a_week(tmp_path: Path) -> None:
    with o.openai_server(lambda body: [o.text("Yes.")]) as server:
        server.rules = replace(REASONING, summaries=False)
        for _ in range(2):
            model = OpenAIModel(
                "gpt-5.4", base_url=server.base_url, key="k", patience=ONCE, learned=LearnedLimits(tmp_path)
            )
            await model.ask(request())
            await model.close()
        assert (len(server.requests), len(server.refusals)) == (3, 1)
    other = LearnedLimits(tmp_path)
    assert other.find("openai:gpt-5.4") == {}, "another server by the same model's name may take it"
    [(name, entry)] = other.entries.items()
    assert (other.find(name), entry.change) == ({"summary": False}, {"summary": False})
    old = {name: {"change": {"summary": False}, "at": int(time.time() - KEEP_SECONDS - 5)}}
    (tmp_path / FILE).write_text(json.dumps(old))
    assert LearnedLimits(tmp_path).find(name) == {}


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "{", "[]", '{"m": {"change": {"images": {}}, "at": 1}}', "x" * (65 << 10)])
def test_an_unreadable_file_is_ignored(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    learned = LearnedLimits(tmp_path)
    assert learned.entries == {}
    for number in range(MAX_MODELS + 5):
        learned.add(f"m{number}", {"images": False})
    assert len(LearnedLimits(tmp_path).entries) == MAX_MODELS
    assert [each.name for each in tmp_path.iterdir()] == [FILE]


KNOWN = DEFAULTS["anthropic"]
GPT = DEFAULTS["openai"]


@pytest.mark.parametrize(
    ("message", "known", "change"),
    [
        ("max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens",
         find_capabilities("anthropic", "claude-opus-5"), {"output": 64000}),
        ("adaptive thinking is not supported on this model", KNOWN, {"thinking": "budget"}),
        ('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
         '"output_config.effort" to control thinking behavior.', replace(KNOWN, thinking="budget"),
         {"thinking": "adaptive"}),
        ("thinking: Extra inputs are not permitted", KNOWN, {"thinking": "none"}),
        ("thinking.adaptive.display: Extra inputs are not permitted", KNOWN, {"summary": False}),
        ("This model does not support the effort parameter.", KNOWN, {"efforts": (), "effort": None}),
        ("output_config: Extra inputs are not permitted", KNOWN, {"efforts": (), "effort": None}),
        ("'claude-x' does not support tool types: computer_toolset_20260801", KNOWN, {"computer": ""}),
        ("tools.3: Input tag 'computer_toolset_20260801' found using 'type' does not match", KNOWN, {"computer": ""}),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", KNOWN, UNBOUND),
        ("Your organization must be verified to generate reasoning summaries. [reasoning.summary]", GPT,
         {"summary": False}),
        ("Unsupported value: 'xhigh' is not supported with the 'gpt-5' model. [reasoning.effort]", GPT,
         {"efforts": (), "effort": None}),
        ("Unsupported parameter: 'reasoning' is not supported with this model. [reasoning]", GPT,
         {"thinking": "none"}),
        ("Encrypted content is not supported with this model. [include]", GPT, {"thinking": "none"}),
        ("Unknown parameter: 'prompt_cache_key'.", GPT, {"cache_key": False}),
        ("Invalid content type. image_url is only supported by certain models.", GPT, {"images": False}),
        ("image input is not supported - hint: if this is unexpected, provide the mmproj", GPT, {"images": False}),
        ("messages.0.content.1.image: image exceeds 5 MB maximum", KNOWN, {}),
        ("prompt is too long: 210000 tokens > 200000 maximum", KNOWN, {}),
        ("Your credit balance is too low to access the Anthropic API", KNOWN, {}),
        ("tools.0.name: String should match pattern", KNOWN, {}),
    ],
)  # fmt: skip
def test_the_feature_to_omit_is_read_from_the_refusal(message: str, known: Any, change: object) -> None:
    assert find_change(known, message) == change
    if change and change is not UNBOUND:
        assert find_change(replace(known, **change), message) != change, "the same is not learned twice"
