"""Tests of every model driver: the providers' real libraries against servers that enforce the providers' rules."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from email.utils import formatdate
from typing import Any

import anyio
import pytest
from tests.providers import anthropic as a
from tests.providers import chat as c
from tests.providers import openai as o
from tests.providers.behind import Asked, behind
from tests.providers.server import Body, Provider, Trouble

from hotdesk.brain.models.anthropic import AnthropicModel
from hotdesk.brain.models.chat import Chat
from hotdesk.brain.models.client import Patience
from hotdesk.brain.models.openai import OpenAIModel
from hotdesk.brain.models.prices import ModelPrice, Prices
from hotdesk.brain.models.seam import LanguageModel, ModelRequest, OurMessage, Reply, Results
from hotdesk.errors import ModelError
from hotdesk.tool import Call, Observation, Parameter, Tool

READ = Tool("read", "Read a file.", (Parameter("path", "text", "which", required=True),), {"path": "a.txt"})
PNG = b"\x89PNG\r\n\x1a\nnot decoded by anybody here"
QUICK = Patience(connect=2, silence=2, retries=2, tries=3, longest=20, pause=0.01)
KEY = "key-of-mine"


@dataclass(frozen=True)
class Kind:
    """A driver, and how replies are written in its provider's protocol."""

    name: str
    serve: Callable[[Any], Any]
    make: Callable[..., Any]
    text: Callable[[str], Body]
    thinking: Callable[[str], Body]
    tool: Callable[..., Body]
    broken: Body
    """A call whose arguments are not JSON."""
    cut: Body
    """A call that was cut off by the limit of its length."""
    refused: Body
    passing: Body
    """An error in the middle of a stream that is worth a retry."""
    lasting: Body
    """An error in the middle of a stream that is not worth a retry."""
    garbage: Body
    """A malformed event."""

    @property
    def asks_again(self) -> bool:
        return self.name != "chat"


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "anthropic", a.anthropic_server, AnthropicModel, a.text, a.thinking, a.tool,
            broken=a.tool("read") | {"raw": '{"path": '},
            cut=a.tool("read") | {"raw": '{"path": "a', "stop": "max_tokens"},
            refused=a.text("No.") | {"stop": "refusal"},
            passing={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            lasting={"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}},
            garbage={"type": "content_block_delta", "index": 99, "delta": {"type": "text_delta", "text": "x"}},
        ),
        Kind(
            "openai", o.openai_server, OpenAIModel, o.text, o.thinking, o.tool,
            broken=o.tool("read") | {"arguments": '{"path": '},
            cut=o.tool("read") | {"arguments": '{"path": "a', "status": "incomplete"},
            refused=o.refusal("No."),
            passing={"type": "error", "code": "server_error", "message": "Oh", "param": None, "sequence_number": 3},
            lasting={"type": "error", "code": "invalid_prompt", "message": "too long", "param": None,
                     "sequence_number": 3},
            garbage={"type": "response.output_item.done", "output_index": 0},
        ),
        Kind(
            "chat", c.chat_server, Chat, c.text, c.thinking, c.tool,
            broken=c.tool("read") | {"arguments": '{"path": '},
            cut=c.tool("read") | {"arguments": '{"path": "a', "stop": "length"},
            refused=c.text("No.") | {"stop": "content_filter"},
            passing={"error": {"type": "server_error", "message": "Oh"}},
            lasting={"error": {"type": "invalid_request_error", "message": "too long"}},
            garbage={"choices": [{"delta": {"tool_calls": [{"index": "first"}]}}]},
        ),
    )
}  # fmt: skip


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@dataclass
class Pair:
    """A driver and its server."""

    model: LanguageModel
    server: Provider


@asynccontextmanager
async def asked(kind: Kind, *replies: Sequence[Body], **options: Any) -> AsyncIterator[Pair]:
    """Yield a driver whose server sends these replies in order; no request may be refused."""
    left: Iterator[Sequence[Body]] = iter(replies)
    with kind.serve(lambda body: next(left)) as server:
        model = kind.make("m-1-vision", **{"base_url": server.base_url, "key": KEY, "patience": QUICK, **options})
        try:
            yield Pair(model, server)
        finally:
            await model.close()
            await model.close()
        assert server.refusals == []


def request(*history: Any, **more: Any) -> ModelRequest:
    return ModelRequest("You work at a desk.", [OurMessage("Read both files."), *history], [READ], **more)


def results(reply: Reply, *seen: Observation) -> Results:
    return Results(tuple(zip(reply.calls, seen, strict=True)))


async def test_tools_are_called_and_their_results_come_back(kind: Kind) -> None:
    uses = [kind.tool("read", path="a"), kind.tool("read", path="b")]
    async with asked(kind, [kind.thinking("Two."), kind.text("I read."), *uses], [kind.text("Done.")]) as pair:
        reply = await pair.model.ask(request())
        assert (reply.text, reply.thought, reply.stop, reply.model) == ("I read.", "Two.", "calls", pair.model.name)
        assert [(each.tool, each.arguments) for each in reply.calls] == [
            ("read", {"path": "a"}),
            ("read", {"path": "b"}),
        ]
        last = await pair.model.ask(request(reply, results(reply, Observation("one"), Observation("none", ok=False))))
        assert (last.text, last.calls, last.stop) == ("Done.", (), "end")
        assert "one" in str(pair.server.requests[1])
        assert "none" in str(pair.server.requests[1])


async def test_thoughts_are_sent_back_unchanged_over_many_turns(kind: Kind) -> None:
    turns = [[kind.thinking(f"Thought {n}."), kind.tool("read", path=str(n))] for n in range(4)]
    async with asked(kind, *turns, [kind.text("Done.")]) as pair:
        history: list[Any] = []
        for _ in turns:
            reply = await pair.model.ask(request(*history))
            history += [reply, results(reply, Observation("seen"))]
        assert (await pair.model.ask(request(*history))).text == "Done."


async def test_a_reply_survives_being_left_out_of_a_later_request(kind: Kind) -> None:
    first = [kind.thinking("Think."), kind.tool("read", path="a")]
    async with asked(kind, first, first, [kind.text("Done.")]) as pair:
        await pair.model.ask(request())
        second = await pair.model.ask(request())
        assert (await pair.model.ask(request(second, results(second, Observation("x"))))).text == "Done."


async def test_removed_or_changed_thoughts_are_refused_by_the_server(kind: Kind) -> None:
    if kind.name == "anthropic":
        pytest.skip("its models take a history without its thinking; test_anthropic.py has what they refuse")
    async with asked(kind, [kind.thinking("Think."), kind.tool("read", path="a")]) as pair:
        reply = await pair.model.ask(request())
        native = [{**item, "reasoning_content": "No."} if "role" in item else item for item in reply.native]
        thoughtless = replace(reply, native=tuple(native if len(native) == 1 else native[1:]))
        with pytest.raises(ModelError, match="rejected this request"):
            await pair.model.ask(request(thoughtless, results(reply, Observation("x"))))
        assert len(pair.server.refusals) == 1
        pair.server.refusals.clear()


async def test_pictures_are_sent(kind: Kind) -> None:
    async with asked(kind, [kind.tool("read", path="a"), kind.tool("read", path="b")], [kind.text("Seen.")]) as pair:
        reply = await pair.model.ask(request())
        seen = Observation(image=PNG, media="image/png", note="cut to the window")
        last = await pair.model.ask(request(reply, results(reply, seen, Observation("no picture"))))
        assert last.text == "Seen."
        assert "iVBORw0KGgpub3QgZGVjb2RlZ" in str(pair.server.requests[1])
        assert "cut to the window" in str(pair.server.requests[1])


async def test_a_call_without_a_result_is_reported_as_not_executed(kind: Kind) -> None:
    async with asked(kind, [kind.tool("read", path="a"), kind.tool("read", path="b")], [kind.text("Ah.")]) as pair:
        reply = await pair.model.ask(request())
        partial = Results(((reply.calls[0], Observation("one")),))
        await pair.model.ask(request(reply, partial))
        assert str(pair.server.requests[1]).count("Not executed: the work was stopped") == 1


async def test_a_history_may_end_with_a_reply_or_contain_an_empty_one(kind: Kind) -> None:
    empty = Reply(model=f"{kind.name}:m-1-vision")
    async with asked(kind, [kind.text("A.")], [kind.text("B.")], [kind.text("C.")]) as pair:
        first = await pair.model.ask(request())
        await pair.model.ask(request(first))
        assert (await pair.model.ask(request(first, OurMessage("More."), empty, OurMessage("And more.")))).text == "C."


async def test_another_providers_turns_are_reported_in_plain_words(kind: Kind) -> None:
    actions = {"vendor": "other", "actions": [{"action": "left_click", "coordinate": [1, 2]}]}
    calls = (Call("odd id: 1", "read", {"path": "a"}), Call("2", "read", "no JSON"), Call("3", "computer", actions))
    other = Reply("I look.", "Hm.", calls, "calls", model="other:m", dialect="other", native=({"type": "x"},))
    seen = results(
        other, Observation("one"), Observation("wrong", ok=False), Observation("clicked", image=PNG, media="image/png")
    )
    async with asked(kind, [kind.text("I go on.")]) as pair:
        assert (await pair.model.ask(request(other, seen, OurMessage("Go on.")))).text == "I go on."
        told = str(pair.server.requests[0])
        for part in ("I look.", "one", "wrong", "left_click", "clicked", "iVBORw0KGgpub3QgZGVjb2RlZ", "Go on."):
            assert part in told
        assert "Hm." not in told


async def test_thoughts_of_another_model_of_the_same_provider_stay_here(kind: Kind) -> None:
    async with asked(kind, [kind.thinking("Mine."), kind.tool("read", path="a")], [kind.text("I go on.")]) as pair:
        reply = await pair.model.ask(request())
        other = kind.make("m-2-vision", base_url=pair.server.base_url, key=KEY, patience=QUICK)
        last = await other.ask(request(reply, results(reply, Observation("x"))))
        await other.close()
        assert last.text == "I go on."
        assert "Mine." not in str(pair.server.requests[1])


async def test_arguments_that_are_not_json_are_passed_on_as_text(kind: Kind) -> None:
    async with asked(kind, [kind.broken], [kind.text("Sorry.")]) as pair:
        reply = await pair.model.ask(request())
        [call] = reply.calls
        assert call.arguments == '{"path": '
        assert (await pair.model.ask(request(reply, results(reply, Observation("wrong", ok=False))))).text == "Sorry."


async def test_a_call_that_its_length_cut_off_is_no_call(kind: Kind) -> None:
    cut = [kind.thinking("Hm."), kind.text("I read."), kind.cut]
    async with asked(kind, *[cut] * kind.asks_again, cut, [kind.text("Short.")]) as pair:
        reply = await pair.model.ask(request())
        assert (reply.text, reply.calls, reply.stop) == ("I read.", (), "length")
        assert (await pair.model.ask(request(reply, OurMessage("Shorter.")))).text == "Short."


async def test_a_thought_that_its_length_cut_off_does_not_go_back(kind: Kind) -> None:
    cut = [kind.thinking("Hm."), kind.cut]
    async with asked(kind, *[cut] * kind.asks_again, cut, [kind.text("Short.")]) as pair:
        reply = await pair.model.ask(request())
        assert (reply.calls, reply.stop) == ((), "length")
        assert (await pair.model.ask(request(reply, OurMessage("Shorter.")))).text == "Short."


async def test_a_truncated_reply_is_requested_again_with_more_room(kind: Kind) -> None:
    if not kind.asks_again:
        pytest.skip("servers of one's own are slow")
    async with asked(kind, [kind.cut], [kind.tool("read", path="a")]) as pair:
        reply = await pair.model.ask(request(tokens=8000))
        assert [call.arguments for call in reply.calls] == [{"path": "a"}]
        limits = [body.get("max_tokens") or body.get("max_output_tokens") for body in pair.server.requests]
        assert limits == [8000, 32_000]
        assert reply.usage.output == 14, "both replies were paid for"
        assert "cut off at 8,000 tokens" in reply.notes[0]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("header", "value"), [("Retry-After", "0.2"), ("retry-after-ms", "200"), ("Retry-After", "date")]
)
async def test_a_retry_delay_of_a_provider_is_respected_and_reported(kind: Kind, header: str, value: str) -> None:
    told: list[str] = []
    async with asked(kind, [kind.text("At last.")], notify=told.append) as pair:
        date = formatdate(time.time() + 2, usegmt=True) if value == "date" else value
        pair.server.trouble.append(Trouble(status=429, headers=((header, date),)))
        begun = time.monotonic()
        reply = await pair.model.ask(request())
        assert (reply.text, time.monotonic() - begun >= 0.2) == ("At last.", True)
        assert f"{pair.model.name}: status 429: waiting " in told[0]
        assert "as the provider requests" in reply.notes[0]


async def test_a_model_at_another_address_than_its_vendors_reports_the_address(kind: Kind) -> None:
    async with asked(kind, [kind.text("A.")]) as pair:
        reply = await pair.model.ask(request())
        assert pair.server.base_url in f"{pair.model.name} {reply.address}"
        assert bool(reply.address) is (kind.name != "chat"), "the name of the last says it already"


async def test_a_refusal_is_reported(kind: Kind) -> None:
    async with asked(kind, [kind.refused]) as pair:
        reply = await pair.model.ask(request())
        assert (reply.text, reply.stop) == ("No.", "refused")


async def test_usage_is_counted_and_priced(kind: Kind) -> None:
    async with asked(kind, [kind.text("A.")], [kind.text("B.")]) as pair:
        reply = await pair.model.ask(request())
        server: Any = pair.server
        counted = server.cache.counts[0].all if kind.name != "chat" else 10
        assert (reply.usage.input + reply.usage.stored, reply.usage.output) == (counted, 7)
        assert reply.usage.up == pair.server.bytes[0]
        assert reply.usage.dollars is None
        table = {pair.model.name: ModelPrice(input=1_000_000, output=2_000_000, cached=0.0, stored=0.0)}
        told = {"base_url": pair.server.base_url, "key": KEY}
        priced = kind.make("m-1-vision", prices=Prices(table), **told)
        if kind.name == "chat":
            priced.name = pair.model.name
        assert (await priced.ask(request())).usage.dollars == reply.usage.input + 14.0
        await priced.close()


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_transient_errors_are_retried(kind: Kind, status: int) -> None:
    async with asked(kind, [kind.text("At last.")]) as pair:
        pair.server.trouble.append(Trouble(status=status, retry_after="0.05"))
        reply = await pair.model.ask(request())
        assert reply.text == "At last."
        assert len(pair.server.requests) == 2
        assert reply.usage.up == sum(pair.server.bytes)


async def test_an_error_that_outlasts_the_retries_is_reported(kind: Kind) -> None:
    async with asked(kind, patience=replace(QUICK, longest=4)) as pair:
        pair.server.trouble.append(Trouble(status=429, retry_after="50"))
        begun = time.monotonic()
        with pytest.raises(
            ModelError, match=r"status 429: .* due in 50 seconds, but this call must end within \d seconds"
        ):
            await pair.model.ask(request())
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("status", "remedy"), [(400, "try another model"), (401, "set a valid key in"), (404, "use another model")]
)
async def test_permanent_errors_are_not_retried(kind: Kind, status: int, remedy: str) -> None:
    async with asked(kind) as pair:
        pair.server.trouble.append(Trouble(status=status, why=f"no\x1b {KEY}"))
        with pytest.raises(ModelError, match=remedy) as told:
            await pair.model.ask(request())
        assert len(pair.server.requests) == 1
        assert pair.model.name in str(told.value)
        assert KEY not in str(told.value)
        assert "***" in str(told.value)
        assert str(told.value).isprintable()


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_an_interrupted_answer_is_requested_again_in_full(kind: Kind, after: int) -> None:
    said = [kind.thinking("Hm."), kind.text("All of it."), kind.tool("read", path="a")]
    async with asked(kind, said, said) as pair:
        pair.server.trouble.append(Trouble(cut=after))
        reply = await pair.model.ask(request())
        assert (reply.text, len(reply.calls)) == ("All of it.", 1)
        assert reply.usage.up == sum(pair.server.bytes) > pair.server.bytes[0]


async def test_an_answer_that_is_always_interrupted_is_given_up(kind: Kind) -> None:
    async with asked(kind, *[[kind.text("All of it.")]] * 3) as pair:
        pair.server.trouble.extend([Trouble(cut=1)] * 3)
        with pytest.raises(ModelError, match=r"no usable reply in 3 attempts: .*was cut off.*; resume the job later"):
            await pair.model.ask(request())
        assert len(pair.server.requests) == 3


async def test_silence_counts_as_an_interrupted_answer(kind: Kind) -> None:
    async with asked(kind, [kind.text("A.")], [kind.text("B.")], patience=replace(QUICK, silence=0.3)) as pair:
        pair.server.trouble.append(Trouble(cut=1, stall=30))
        assert (await pair.model.ask(request())).text == "B."


async def test_a_transient_error_during_an_answer_is_retried(kind: Kind) -> None:
    async with asked(kind, [kind.text("A.")], [kind.text("B.")], [kind.text("C.")]) as pair:
        pair.server.trouble.append(Trouble(cut=1, event=kind.passing))
        assert (await pair.model.ask(request())).text == "B."
        pair.server.trouble.append(Trouble(cut=1, event=kind.lasting))
        with pytest.raises(ModelError, match="too long"):
            await pair.model.ask(request())
        assert len(pair.server.requests) == 3


async def test_a_malformed_answer_is_reported(kind: Kind) -> None:
    async with asked(kind, [kind.text("A.")]) as pair:
        name = str(kind.garbage.get("type", ""))
        pair.server.trouble.append(Trouble(cut=1, event=kind.garbage, name=name))
        with pytest.raises(ModelError, match=r"the reply is malformed.*use another model"):
            await pair.model.ask(request())
        assert len(pair.server.requests) == 1


async def test_an_unreachable_server_is_reported_with_a_remedy(kind: Kind) -> None:
    async with asked(kind) as pair:
        url = pair.server.base_url
    model = kind.make("m-1-vision", base_url=url, key=KEY, patience=replace(QUICK, retries=0))
    with pytest.raises(ModelError, match=r"does not respond.*check that the server is running"):
        await model.ask(request())
    await model.close()


async def test_a_cancelled_request_ends_at_once_and_the_next_one_works(kind: Kind) -> None:
    async with asked(kind, [kind.text("A.")], [kind.text("B.")]) as pair:
        pair.server.trouble.append(Trouble(cut=1, stall=30))
        with anyio.move_on_after(0.3) as scope:
            await pair.model.ask(request())
        assert scope.cancelled_caught
        assert (await pair.model.ask(request())).text == "B."


async def test_concurrent_requests_count_their_own_bytes(kind: Kind) -> None:
    async with asked(kind, [kind.text("A.")], [kind.text("B.")]) as pair:
        ups: list[int] = []

        async def one(more: str) -> None:
            ups.append((await pair.model.ask(request(OurMessage(more)))).usage.up)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "short")
            tasks.start_soon(one, "long" * 1000)
        assert sorted(ups) == sorted(pair.server.bytes)


async def test_a_redirection_is_not_followed(kind: Kind) -> None:
    async with asked(kind) as pair:
        pair.server.trouble.append(Trouble(status=307, location="http://127.0.0.1:1/elsewhere"))
        with pytest.raises(ModelError):
            await pair.model.ask(request())
        assert len(pair.server.requests) == 1


async def test_requests_to_this_machine_use_no_proxy(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with asked(kind, [kind.text("A.")]) as pair:
        assert (await pair.model.ask(request())).text == "A."


async def test_every_protocol_carries_the_same_requests_and_replies(kind: Kind) -> None:
    heard: list[Asked] = []

    def brain(told: Asked) -> Reply:
        heard.append(told)
        if told.turns == 2:
            return Reply("Done.")
        calls = (Call("", "read", {"path": f"{told.turns}a"}), Call("", "read", {"path": f"{told.turns}b"}))
        return Reply("I read.", "Hm.", calls)

    with behind(kind.name, brain) as server:
        model = kind.make("m-1-vision", base_url=server.base_url, key=KEY, patience=QUICK)
        history: list[Any] = []
        while (reply := await model.ask(request(*history))).calls:
            paths = [str(call.arguments) for call in reply.calls]
            history += [reply, results(reply, *(Observation(path, image=PNG, media="image/png") for path in paths))]
        await model.close()
    assert [(each.turns, each.pictures) for each in heard] == [(0, 0), (1, 2), (2, 4)]
    assert [each.results for each in heard] == [(), *(tuple(f"{{'path': '{n}{x}'}}" for x in "ab") for n in (0, 1))]
    assert {(each.system, each.told[0], each.tools) for each in heard} == {
        ("You work at a desk.", "Read both files.", ("read",))
    }
