"""What every provider's driver does alike: the real libraries against servers that hold them to the providers' rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.providers import anthropic as a
from tests.providers.server import Body, Provider, Trouble

from hotdesk.brain.models.anthropic import Anthropic
from hotdesk.brain.models.line import Patience
from hotdesk.brain.models.seam import Model, Reply, Request, Results, Told
from hotdesk.errors import ModelError
from hotdesk.tool import Call, Observation, Parameter, Tool

READ = Tool("read", "Read a file.", (Parameter("path", "text", "which", required=True),), {"path": "a.txt"})
PNG = b"\x89PNG\r\n\x1a\nnot decoded by anybody here"
QUICK = Patience(connect=2, silence=2, retries=2, tries=3, longest=10, pause=0.01)


@dataclass(frozen=True)
class Kind:
    """A driver, and how its provider's model says things."""

    serve: Callable[[Any], Any]
    make: Callable[..., Any]
    text: Callable[[str], Body]
    thinking: Callable[[str], Body]
    tool: Callable[..., Body]


KINDS = {"anthropic": Kind(a.anthropic_server, Anthropic, a.text, a.thinking, a.tool)}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Give one driver after the other."""
    return KINDS[request.param]


@dataclass
class Pair:
    """A driver and its server."""

    model: Model
    server: Provider


@asynccontextmanager
async def asked(kind: Kind, *replies: Sequence[Body], patience: Patience = QUICK) -> AsyncIterator[Pair]:
    """Give a driver whose server says these replies, one after the other."""
    left: Iterator[Sequence[Body]] = iter(replies)
    with kind.serve(lambda body: next(left)) as server:
        model = kind.make("m-1", base_url=server.base_url, key="key-of-mine", patience=patience)
        try:
            yield Pair(model, server)
        finally:
            await model.close()
        assert server.refusals == []


def request(*history: Any, **more: Any) -> Request:
    """Ask about files."""
    return Request("You work at a desk.", [Told("Read both files."), *history], [READ], **more)


def results(reply: Reply, *seen: Observation) -> Results:
    """Answer a reply's calls."""
    return Results(tuple(zip(reply.calls, seen, strict=True)))


async def test_tools_are_called_and_their_results_come_back(kind: Kind) -> None:
    first = [
        kind.thinking("Two files."),
        kind.text("I read."),
        kind.tool("read", path="a"),
        kind.tool("read", path="b"),
    ]
    async with asked(kind, first, [kind.text("Done.")]) as pair:
        reply = await pair.model.ask(request())
        assert (reply.text, reply.thought, reply.stop) == ("I read.", "Two files.", "calls")
        assert [(call.tool, call.arguments) for call in reply.calls] == [
            ("read", {"path": "a"}),
            ("read", {"path": "b"}),
        ]
        last = await pair.model.ask(request(reply, results(reply, Observation("one"), Observation("none", ok=False))))
        assert (last.text, last.calls, last.stop) == ("Done.", (), "end")
        assert last.usage.up == pair.server.bytes[1] > reply.usage.up == pair.server.bytes[0]
