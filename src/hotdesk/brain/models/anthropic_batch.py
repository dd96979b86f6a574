"""Anthropic's models by message batches, for jobs that may wait: `anthropic:MODEL?batch`. Each turn is a batch of one.

Half the price, and up to a day for a reply. A job that is stopped meanwhile sends its request anew when it goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import anyio

from hotdesk.brain.models.anthropic import AnthropicModel
from hotdesk.brain.models.client import Events, Patience, ProviderError, RefusedRequestError, ReplyCutError
from hotdesk.brain.models.seam import Reply
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

_DISCOUNT = 0.5
_LONGEST_S = 25 * 3600.0
"""Seconds for one reply: providers give up after a day."""
_FIRST_POLL_S, _LAST_POLL_S = 2.0, 60.0
_CUSTOM_ID = "turn"


@dataclass
class BatchStream:
    """A batch of one request, read like a stream: its one event is what came of the request."""

    client: Any
    batch: str
    poll: float
    ended: bool = False

    async def __aenter__(self) -> BatchStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel a batch that nobody waits for any more: it would be paid for."""
        if kind is not None and not self.ended:
            with anyio.move_on_after(5, shield=True), suppress(Exception):  # whatever went wrong before is told
                await self.client.messages.batches.cancel(self.batch)

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Wait until the batch has ended, then give its result."""
        pause = self.poll
        found = await self.client.messages.batches.retrieve(self.batch)
        while found.processing_status != "ended":
            await anyio.sleep(pause)
            pause = min(pause * 1.5, _LAST_POLL_S)
            found = await self.client.messages.batches.retrieve(self.batch)
        self.ended = True
        if urlsplit(str(found.results_url)).netloc != urlsplit(str(self.client.base_url)).netloc:
            raise ProviderError("the batch's results are at an unexpected address")
        async for result in await self.client.messages.batches.results(self.batch):
            yield result


class AnthropicBatchModel(AnthropicModel):
    """An Anthropic model, asked by batches."""

    poll = _FIRST_POLL_S

    def __init__(self, model: str, *, patience: Patience | None = None, **options: Any) -> None:
        super().__init__(model, patience=patience or Patience(longest=_LONGEST_S), **options)

    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        batch = await client.messages.batches.create(requests=[{"custom_id": _CUSTOM_ID, "params": body}])
        self.tell(f"batch {batch.id} is submitted: its reply may take up to a day")
        return BatchStream(client, batch.id, self.poll)

    async def gather(self, events: Events) -> dict[str, Any]:
        async for event in events:
            match event.get("result"):
                case {"type": "succeeded", "message": dict(message)}:
                    return {**message, "inputs": {}}
                case {"type": "errored", "error": {"error": {"type": str(kind), "message": str(message)}}}:
                    raise self.build_batch_error(kind, message)
                case {"type": str(kind)}:
                    raise ProviderError(f"its batch was {kind}")
        raise ReplyCutError("its batch has no result")

    def build_batch_error(self, kind: str, message: str) -> Exception:
        """Return the error of a failed batch request; `RefusedRequestError` if it may work without some feature."""
        detail = make_printable(self.line.hide_key(message))
        if kind != "invalid_request_error":
            return ReplyCutError(f"its batch failed: {kind}")
        return RefusedRequestError(str(self.line.build_error(detail[:300], "another model may answer")), detail[:2000])

    def price_reply(self, reply: Reply, up: int) -> Reply:
        priced = super().price_reply(reply, up)
        dollars = None if priced.usage.dollars is None else priced.usage.dollars * _DISCOUNT
        return replace(priced, usage=replace(priced.usage, dollars=dollars))
