"""Tests of a person playing the model: they see what a model would see and reply through the real libraries."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anthropic import AsyncAnthropic, BadRequestError
from openai import AsyncOpenAI
from openai import BadRequestError as BadOpenAIRequestError
from tools import sit_in
from tools.sit_in import Room, open_server

from hotdesk.brain.models import names
from hotdesk.brain.models.client import Patience
from hotdesk.brain.models.seam import Item, LanguageModel, ModelRequest, OurMessage, Reply, Results
from hotdesk.tool import Observation, Parameter, Tool

PNG = b"\x89PNG\r\n\x1a\nnot decoded by anybody here"
READ = Tool("read", "Read a file.", (Parameter("path", "text", "which", required=True),), {"path": "a.txt"})
PATIENCE = Patience(connect=2, silence=20, retries=0, tries=1, longest=60)
PROTOCOLS = ("anthropic", "openai", "chat")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "room")


@pytest.fixture
def port(room: Room) -> Iterator[int]:
    with open_server(room) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def model_of(protocol: str, port: int) -> LanguageModel:
    address = f"http://127.0.0.1:{port}"
    if protocol == "chat":
        return names.find(f"chat:qwen-vl@{address}/v1", patience=PATIENCE)
    url = address if protocol == "anthropic" else f"{address}/v1"
    name = "claude-sonnet-5" if protocol == "anthropic" else "gpt-5.4"
    return names.find(f"{protocol}:{name}", base_url=url, key="any", patience=PATIENCE)


def request(*history: Item, first: str = "Read a.txt.", **more: Any) -> ModelRequest:
    return ModelRequest("You work.", [OurMessage(first), *history], [READ], **more)


async def sit(
    room: Room, model: LanguageModel, asked: ModelRequest, said: object, capsys: Capture
) -> tuple[Reply, str]:
    """Ask a model, and reply to that by the commands; return the reply as it arrived, and what `next` printed."""
    replies: list[Reply] = []

    async def ask() -> None:
        replies.append(await model.ask(asked))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        code = await anyio.to_thread.run_sync(sit_in.main, ["next", "--room", str(room.folder), "--wait", "20"])
        shown = capsys.readouterr().out
        assert code == 0
        file = room.folder / "said.json"
        file.write_text(json.dumps(said))
        assert sit_in.main(["say", "--room", str(room.folder), str(room.numbers()[-1]), str(file)]) == 0
    return replies[0], shown


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_conversation_by_hand(protocol: str, room: Room, port: int, capsys: Capture) -> None:
    model = model_of(protocol, port)
    said = {"think": "What is in it?", "text": "I read it.", "calls": [{"name": "read", "input": {"path": "name"}}]}
    first, shown = await sit(room, model, request(), said, capsys)
    assert "=== instructions\nYou work.\n=== tools\n" in shown
    assert "Read a file." in shown
    assert shown.endswith("=== user\nRead a.txt.\n")
    assert (first.text, first.thought) == ("I read it.", "What is in it?")
    assert [(call.tool, call.arguments) for call in first.calls] == [("read", {"path": "name"})]
    results = Results(((first.calls[0], Observation("a\x1b[31m letter", image=PNG, media="image/png")),))
    second, shown = await sit(room, model, request(first, results), {"text": "Done."}, capsys)
    assert second.text == "Done."
    assert "You work." not in shown
    assert "Read a.txt." not in shown
    assert "[you called read, " in shown
    assert "a\\x1b[31m letter" in shown
    [picture] = room.folder.glob("picture-*.png")
    assert picture.read_bytes() == PNG
    assert f"[picture: {picture}]" in shown
    third, shown = await sit(room, model, request(first, results, first="Read b.txt."), {"text": "Well."}, capsys)
    assert third.text == "Well."
    assert "=== instructions" in shown
    await model.close()


@pytest.mark.slow
async def test_the_same_thought_in_two_conversations_is_valid_in_both(room: Room, port: int, capsys: Capture) -> None:
    address = f"http://127.0.0.1:{port}"
    model = names.find("anthropic:claude-sonnet-5-5", base_url=address, key="any", patience=PATIENCE)
    said = {"think": "I read it first.", "calls": [{"name": "read", "input": {"path": "a.txt"}}]}
    first, _ = await sit(room, model, request(think=True), said, capsys)
    await sit(room, model, request(first="Read b.txt.", think=True), said, capsys)
    results = Results(((first.calls[0], Observation("a letter")),))
    second, shown = await sit(room, model, request(first, results, think=True), {"text": "Done."}, capsys)
    assert second.notes == ()
    assert "[your thinking: I read it first.]" in shown
    await model.close()


@pytest.mark.slow
async def test_a_long_message_of_ones_own_is_shortened_and_a_changed_one_is_noted(
    room: Room, port: int, capsys: Capture
) -> None:
    model = model_of("anthropic", port)
    said = {"calls": [{"name": "read", "input": {"path": "x" * 1000}}]}
    first, _ = await sit(room, model, request(), said, capsys)
    history = (first, Results(((first.calls[0], Observation("one")),)))
    second, shown = await sit(room, model, request(*history), {"text": "More?"}, capsys)
    assert "x" * 1000 not in shown
    assert "--whole prints them" in shown
    changed = (first, Results(((first.calls[0], Observation("two")),)))
    _, shown = await sit(room, model, request(*changed, second, OurMessage("More.")), {"text": "Well."}, capsys)
    assert "=== note: message 3 is not what it was in request 2" in shown
    await model.close()


NATIVE = {
    "anthropic": {"name": "left_click", "toolset_name": "computer", "input": {"coordinate": [1, 2]}},
    "openai": {"name": "computer", "input": {"actions": [{"type": "click", "x": 1, "y": 2, "button": "left"}]}},
}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", sorted(NATIVE))
async def test_the_native_computer_is_used(protocol: str, room: Room, port: int, capsys: Capture) -> None:
    model = model_of(protocol, port)
    first, shown = await sit(room, model, request(screen=(1280, 800)), {"calls": [NATIVE[protocol]]}, capsys)
    assert '"type": "computer' in shown
    [call] = first.calls
    assert call.tool == "computer"
    assert isinstance(call.arguments, dict)
    assert len(call.arguments["actions"]) == 1
    results = Results(((call, Observation("clicked", image=PNG, media="image/png")),))
    second, shown = await sit(room, model, request(first, results, screen=(1280, 800)), {"text": "Done."}, capsys)
    assert second.text == "Done."
    assert "[picture: " in shown
    await model.close()


async def test_requests_a_provider_would_refuse_are_refused(room: Room, port: int) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    messages: Any = [
        {"role": "user", "content": [{"type": "text", "text": "Read."}]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "text", "text": "Well?"}]},
    ]
    tools: Any = [{"name": "read", "input_schema": {"type": "object"}}]
    async with AsyncAnthropic(base_url=f"http://127.0.0.1:{port}", api_key="any", max_retries=0) as client:
        with pytest.raises(BadRequestError, match="each tool_use must have a single tool_result"):
            await client.messages.create(
                model="claude-sonnet-5", max_tokens=100, messages=messages, tools=tools, stream=True
            )
        with pytest.raises(BadRequestError, match="must be true"):
            await client.messages.create(model="claude-sonnet-5", max_tokens=100, messages=messages[:1])
    async with AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any", max_retries=0) as openai:
        call: Any = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
        with pytest.raises(BadOpenAIRequestError, match="No tool output found"):
            await openai.responses.create(model="gpt-5", input=[call], store=False, stream=True)
        uses = [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]
        said: Any = {"role": "assistant", "content": "", "tool_calls": uses}
        with pytest.raises(BadOpenAIRequestError, match="calls have no result"):
            await openai.chat.completions.create(model="qwen", messages=[said], stream=True)
    assert room.numbers() == []


@pytest.mark.slow
async def test_a_request_whose_client_hung_up_is_not_shown_and_takes_no_reply(
    room: Room, port: int, capsys: Capture
) -> None:
    model = model_of("chat", port)
    with anyio.move_on_after(0.5):
        await model.ask(request())
    await model.close()
    end = time.monotonic() + 10
    while not room.file(1, "abandoned").exists():
        assert time.monotonic() < end
        await anyio.sleep(0.05)
    assert sit_in.main(["next", "--room", str(room.folder), "--wait", "0"]) == 1
    assert "No request came" in capsys.readouterr().out
    file = room.folder / "said.json"
    file.write_text('{"text": "Late."}')
    assert sit_in.main(["say", "--room", str(room.folder), "1", str(file)]) == 2
    assert "Nobody waits for a reply to request 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("[]", "malformed"),
        ('{"text": "a", "tool": "b"}', "malformed"),
        ('{"think": "a"}', "empty"),
        ('{"calls": [{"name": "left_click", "toolset_name": "computer"}]}', "declares no native toolset"),
        ('{"calls": [{"name": "computer", "input": {}}]}', "needs `actions`"),
    ],
)
def test_a_malformed_reply_is_refused_and_can_be_written_again(
    said: str, why: str, room: Room, tmp_path: Path, capsys: Capture
) -> None:
    room.folder.mkdir()
    assert room.add("openai", {"model": "gpt-5", "input": "Go.", "tools": [{"type": "computer"}]}) == 1
    file = tmp_path / "said.json"
    file.write_text(said)
    assert sit_in.main(["say", "--room", str(room.folder), "1", str(file)]) == 2
    assert why in capsys.readouterr().err
    assert room.find_waiting() == 1
    file.write_text('{"text": "Done."}')
    assert sit_in.main(["say", "--room", str(room.folder), "1", str(file)]) == 0
    assert room.find_waiting() is None


@pytest.mark.slow
def test_the_server_says_how_it_is_reached(room: Room) -> None:
    argv = [sys.executable, sit_in.__file__, "serve", "--room", str(room.folder), "--port", "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        lines = [serving.stdout.readline() for _ in range(3)]
        serving.terminate()
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:" in lines[0]
    assert "OPENAI_BASE_URL=" in lines[1]
    assert "chat:MODEL@" in lines[2]
