"""Anthropic's models by message batches, for work that may wait: `anthropic:MODEL?batch`.

Half the price, and up to a day for a reply. Turns that are requested at about the same time, such as those of a swarm's
items, are one batch; a job by itself has batches of one. A job that is interrupted sends its request again when it is
resumed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import field, replace
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import anyio

from hotdesk.brain.models.anthropic import AnthropicModel
from hotdesk.brain.models.client import (
    UNDER_WAY,
    Events,
    Patience,
    ProviderError,
    RefusedRequestError,
    ReplyCutError,
)
from hotdesk.brain.models.retry import is_passing
from hotdesk.brain.models.seam import Reply
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

_DISCOUNT = 0.5
_LONGEST_S = 25 * 3600.0
"""Seconds for one reply: providers give up after a day."""
_FIRST_POLL_S, _LAST_POLL_S = 2.0, 60.0
_QUIET_S, _LONGEST_QUIET_S = 1.0, 15.0
"""Seconds without another turn before a batch is submitted, and the longest wait after its first turn."""
_SUBMIT_TIMEOUT_S = 120.0
_MAX_FAILED_POLLS = 5
"""Failed polls in a row: one failed connection in a day must not lose a batch."""
_MAX_TURNS = 10_000
_MAX_BYTES = 128 << 20
"""Providers accept ten times as many turns, and twice the bytes."""


@dataclass
class TurnBatch:
    """Turns that are submitted together. Any task that waits for a turn may poll for all of them."""

    client: Any
    quiet: float
    poll: float
    may_pass: Callable[[Exception], bool]
    """Returns whether a failure may be temporary."""
    turns: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Request bodies by turn name."""
    waiting: set[str] = field(default_factory=set)
    """Turns that a task still waits for."""
    size: int = 0
    """Bytes of all turns."""
    id: str = ""
    """The provider's id of the batch; empty if it was not submitted."""
    closed: bool = False
    """Whether another turn needs another batch."""
    error: Exception | None = None
    """Why the batch could not be submitted."""
    results: dict[str, Any] = field(default_factory=dict)
    ended: bool = False
    arrived: anyio.Event = field(default_factory=anyio.Event)
    leading: anyio.Lock = field(default_factory=anyio.Lock)

    def add(self, body: dict[str, Any], size: int) -> str:
        """Add a turn; return its name."""
        name = f"turn-{len(self.turns) + 1}"
        self.turns[name] = body
        self.waiting.add(name)
        self.size += size
        self.closed = len(self.turns) >= _MAX_TURNS or self.size >= _MAX_BYTES
        self.arrived.set()
        return name

    async def leave(self, name: str) -> None:
        """Stop waiting for a turn; cancel a batch that no task waits for, because it would cost money."""
        self.waiting.discard(name)
        if not self.id:
            self.turns[name] = {}  # it keeps its place, so that no two turns have one name
        elif not self.waiting and not self.ended:
            with anyio.move_on_after(5, shield=True), suppress(Exception):  # an earlier error is reported already
                await self.client.messages.batches.cancel(self.id)

    async def submit(self) -> bool:
        """Submit the batch once; return whether this call did. An error is raised for every turn in it."""
        async with self.leading:
            if self.error is not None:
                raise self.error
            if self.id:
                return False
            await self.gather_turns()
            requests = [{"custom_id": name, "params": body} for name, body in self.turns.items() if body]
            try:
                with anyio.fail_after(_SUBMIT_TIMEOUT_S, shield=True):  # without its id it could not be cancelled
                    submitted = await self.client.messages.batches.create(requests=requests)
            except TimeoutError as e:
                self.error = ReplyCutError(f"the provider did not accept the batch in {_SUBMIT_TIMEOUT_S:g} seconds")
                raise self.error from e
            except Exception as e:
                self.error = e
                raise
            self.id = submitted.id
            return True

    async def gather_turns(self) -> None:
        """Wait until no further turn arrives."""
        with anyio.move_on_after(_LONGEST_QUIET_S):
            while not self.closed:
                self.arrived = anyio.Event()
                with anyio.move_on_after(self.quiet) as scope:
                    await self.arrived.wait()
                if scope.cancelled_caught:
                    break
        self.closed = True

    async def wait(self, name: str) -> Any:
        """Wait until the batch has ended; return the result of a turn, or `None` if it has none."""
        async with self.leading:
            if not self.ended:
                await self.read_results()
        return self.results.pop(name, None)

    async def read_results(self) -> None:
        """Poll until the batch has ended, then read the results of all turns."""
        pause, failed = self.poll, 0
        while (found := await self.poll_once(failed)) is None or found.processing_status != "ended":
            failed = failed + 1 if found is None else 0
            await anyio.sleep(pause)
            pause = min(pause * 1.5, _LAST_POLL_S)
        if (place := urlsplit(str(found.results_url)).netloc) != urlsplit(str(self.client.base_url)).netloc:
            shown = make_printable(place)[:200]
            raise ProviderError(f"the batch's results are at another server, {shown!r}, which hotdesk does not contact")
        async for result in await self.client.messages.batches.results(self.id):
            if result.custom_id in self.waiting:
                self.results[result.custom_id] = result
        self.ended = True

    async def poll_once(self, failed: int) -> Any:
        """Return the batch's status, or `None` after a failure that may be temporary and did not occur too often."""
        try:
            return await self.client.messages.batches.retrieve(self.id)
        except Exception as e:
            if failed + 1 >= _MAX_FAILED_POLLS or not self.may_pass(e):
                raise
            return None


@dataclass
class BatchStream:
    """One turn of a batch, read like a stream: its only event is the turn's result."""

    batch: TurnBatch
    name: str

    async def __aenter__(self) -> BatchStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.batch.leave(self.name)

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Wait until the batch has ended, then yield the turn's result."""
        result = await self.batch.wait(self.name)
        if result is not None:
            yield result


class AnthropicBatchModel(AnthropicModel):
    """An Anthropic model that is called by batches."""

    poll = _FIRST_POLL_S
    quiet = _QUIET_S

    def __init__(self, model: str, *, patience: Patience | None = None, **options: Any) -> None:
        super().__init__(model, patience=patience or Patience(longest=_LONGEST_S), **options)
        self.batch: TurnBatch | None = None
        """The batch that accepts further turns."""

    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        """Submit a turn, together with those that other tasks request now."""
        if self.batch is None or self.batch.closed or self.batch.client is not client:
            self.batch = TurnBatch(client, self.quiet, self.poll, self.may_pass)
        batch, sent, size = self.batch, UNDER_WAY.get().sent, len(json.dumps(body))
        name, before = batch.add(body, size), len(sent)
        try:
            if await batch.submit():
                count = len(batch.waiting)
                turns = "the reply" if count == 1 else f"the {count} replies for this swarm"
                self.tell(f"batch {batch.id} was submitted: {turns} may take up to a day")
        except BaseException:
            await batch.leave(name)
            raise
        sent[before:] = [size]  # each turn counts its own bytes, whichever turn submitted the batch
        return BatchStream(batch, name)

    def may_pass(self, error: Exception) -> bool:
        """Return whether a failure may be temporary."""
        sdk = self.line.sdk
        if isinstance(error, sdk.APIStatusError):
            return is_passing(error.status_code, error.response.headers)
        return isinstance(error, sdk.APIConnectionError)

    async def gather(self, events: Events) -> dict[str, Any]:
        async for event in events:
            match event.get("result"):
                case {"type": "succeeded", "message": dict(message)}:
                    return {**message, "inputs": {}}
                case {"type": "errored", "error": {"error": {"type": str(kind), "message": str(message)}}}:
                    raise self.build_batch_error(kind, message)
                case {"type": str(kind)}:
                    raise ProviderError(f"the provider did not process the request in the batch (status: {kind})")
        raise ReplyCutError("the batch has no result for this request")

    def build_batch_error(self, kind: str, message: str) -> Exception:
        """Return the error of a failed batch request; `RefusedRequestError` if it may work without some feature."""
        detail = make_printable(self.line.hide_key(message))
        if kind != "invalid_request_error":
            return ReplyCutError(f"the batch failed: {kind}")
        return RefusedRequestError(str(self.line.build_error(detail[:300], "use another model")), detail[:2000])

    def price_reply(self, reply: Reply, up: int) -> Reply:
        priced = super().price_reply(reply, up)
        dollars = None if priced.usage.dollars is None else priced.usage.dollars * _DISCOUNT
        return replace(priced, usage=replace(priced.usage, dollars=dollars))
