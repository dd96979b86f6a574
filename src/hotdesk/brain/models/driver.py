"""The common part of the providers' drivers: wire format, client, price, and features of a model."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Protocol

from hotdesk.brain.models.anthropic_wire import GONE
from hotdesk.brain.models.capabilities import Capabilities, change_capabilities, find_capabilities
from hotdesk.brain.models.clean import clean_body, clean_message
from hotdesk.brain.models.client import Events, ProviderClient, RefusedRequestError
from hotdesk.brain.models.codec import check_reply
from hotdesk.brain.models.learned import LearnedLimits
from hotdesk.brain.models.prices import Prices
from hotdesk.brain.models.refusals import UNBOUND, describe_change, find_change
from hotdesk.brain.models.seam import Item, ModelRequest, Reply, Results
from hotdesk.dataclass import dataclass
from hotdesk.errors import ModelError
from hotdesk.tool import Observation

_STEPS_DOWN = 4
"""Features that may be left out before one request is given up."""
_LONGER = 4
"""The factor by which a cut-off reply may be longer at the second request."""
_NO_PICTURE = "[A picture was here. This model cannot see pictures.]"


class WireFormat(Protocol):
    """A provider's wire format: a module of pure functions."""

    def write_body(self, request: ModelRequest, model: str, name: str, capabilities: Capabilities) -> dict[str, Any]:
        """Return the body of a request."""
        ...

    async def gather(self, events: Events) -> dict[str, Any]:
        """Assemble a reply from its events.

        Raises `ReplyCutError` if its end is missing and `ProviderError` if the provider reports a failure.
        """
        ...

    def read_reply(self, message: dict[str, Any], name: str) -> Reply:
        """Return the reply in an assembled message."""
        ...

    def compute_prefix(self, request: ModelRequest) -> str:
        """Return the prefix that a reply's thinking is valid after; empty if it is valid anywhere."""
        ...


@dataclass(frozen=True)
class DriverOptions:
    """The options of a driver beside its model's name."""

    prices: Prices = field(default_factory=Prices)
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """The operator's `[models]` settings."""
    learned: LearnedLimits = field(default_factory=LearnedLimits)
    notify: Callable[[str], None] | None = None
    """Called with notes for people who wait: a delay, a feature that is left out."""


class Driver(ABC):
    """One model of one provider."""

    def __init__(
        self, dialect: str, model: str, window: int | None, most: int, options: DriverOptions, form: WireFormat,
        line: ProviderClient,
    ) -> None:  # fmt: skip
        """`window` is set by the caller; `most` is the default if the model has more."""
        self.model = model
        self.name = line.name
        self.options = options
        self.form = form
        self.line = line
        line.notify = options.notify
        self.capabilities = find_capabilities(dialect, model, options.settings)
        self.capabilities = change_capabilities(self.capabilities, options.learned.find(self.memory_name))
        self.window = window or min(self.capabilities.window or most, self.capabilities.context)
        self.unbound: set[str] = set()
        """Digests of replies whose thinking the provider refused to accept."""

    @property
    def memory_name(self) -> str:
        """Return the name for learned limits: a model of the same name at another server may differ."""
        return f"{self.name} {self.line.address}".strip()

    @property
    def native_screen(self) -> bool:
        return bool(self.capabilities.computer)

    @property
    def sees(self) -> bool:
        return self.capabilities.images

    @property
    def address(self) -> str:
        """Return the server's address; empty if it is the vendor's own, or part of the name."""
        return "" if self.line.address in self.name else self.line.address

    async def ask(self, request: ModelRequest) -> Reply:
        """Return the next reply, streamed; one that its length limit cut off is requested once more, with more room."""
        reply = await self.ask_adapted(request)
        longer = self.find_longer_limit(request)
        if reply.stop != "length" or reply.calls or longer <= self.find_limit(request):
            return reply
        note = f"the reply was cut off at {self.find_limit(request):,} tokens; trying again with {longer:,} tokens"
        self.tell(note)
        try:
            again = await self.ask_adapted(replace(request, tokens=longer))
        except ModelError as e:
            self.tell(failed := f"the second attempt failed: {e}")
            return replace(reply, notes=(*reply.notes, note, failed))  # it was paid for
        usage = reply.usage.add(again.usage)
        return replace(again, usage=usage, notes=(*reply.notes, note, *again.notes))

    def find_limit(self, request: ModelRequest) -> int:
        return min(request.tokens, self.capabilities.output)

    def find_longer_limit(self, request: ModelRequest) -> int:
        return min(_LONGER * self.find_limit(request), self.capabilities.output)

    async def ask_adapted(self, request: ModelRequest) -> Reply:
        """Send a request without the features that the provider refuses; each feature is left out once."""
        notes: list[str] = []
        refused: set[object] = set()
        for _ in range(_STEPS_DOWN):
            adapted = self.adapt(request)
            try:
                reply = await self.ask_once(adapted)
            except RefusedRequestError as e:
                change = find_change(self.capabilities, e.detail)
                refused.add(self.capabilities.thinking)
                if change.get("thinking") in refused:  # the provider suggests a way of thinking that it refuses as well
                    change = {"thinking": "none"}
                if not change or (change is UNBOUND and not self.unbind(request)):
                    raise
                notes.append(self.learn(change, e.detail))
            else:
                prefix = self.form.compute_prefix(adapted)
                return replace(reply, address=self.address, prefix=prefix, notes=(*notes, *reply.notes))
        return await self.ask_once(self.adapt(request))

    async def ask_once(self, request: ModelRequest) -> Reply:
        body = clean_body(self.form.write_body(request, self.model, self.name, self.capabilities))

        async def begin(client: Any) -> Any:
            return await self.begin(client, body)

        async def hear(events: Events) -> Reply:
            reply = self.form.read_reply(clean_message(await self.gather(events)), self.name)
            check_reply(reply)
            return reply

        reply, up, notes = await self.line.ask(begin, hear, has_alternative=request.has_alternative)
        return replace(self.price_reply(reply, up), notes=notes)

    async def gather(self, events: Events) -> dict[str, Any]:
        return await self.form.gather(events)

    def price_reply(self, reply: Reply, up: int) -> Reply:
        return replace(reply, usage=self.options.prices.price_usage(replace(reply.usage, up=up), self.name))

    def adapt(self, request: ModelRequest) -> ModelRequest:
        tools, screen = request.tools, request.screen
        if screen is not None and not self.capabilities.computer:
            tools, screen = (*tools, *request.screen_tools), None
        return replace(
            request,
            tools=tools,
            screen=screen,
            tokens=self.find_limit(request),
            history=tuple(self.adapt_item(item) for item in request.history),
        )

    def adapt_item(self, item: Item) -> Item:
        """Return an item of the history in a form this model accepts: the same each time, so that caches hold."""
        if isinstance(item, Results) and not self.capabilities.images:
            return Results(tuple((call, _drop_picture(each)) for call, each in item.pairs))
        if isinstance(item, Reply) and self.unbound and _digest_reply(item) in self.unbound:
            return replace(item, prefix=GONE)
        return item

    def unbind(self, request: ModelRequest) -> bool:
        """Leave out the thinking of this history from now on; return whether any was still included."""
        found = {_digest_reply(item) for item in request.history if isinstance(item, Reply)} - self.unbound
        self.unbound |= found
        return bool(found)

    def learn(self, change: Mapping[str, object], why: str) -> str:
        """Leave a feature out from now on; store it unless it concerns this conversation only."""
        if change is not UNBOUND:
            self.capabilities = change_capabilities(self.capabilities, change)
            self.options.learned.add(self.memory_name, change)
        note = f"the provider refused a part of the request ({why[:160]}); now {describe_change(change)}"
        self.tell(note)
        return note

    def tell(self, note: str) -> None:
        self.line.tell(note)

    @abstractmethod
    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        """Begin a stream with the provider's client."""

    async def close(self) -> None:
        await self.line.close()


def _drop_picture(observation: Observation) -> Observation:
    if not observation.image:
        return observation
    text = f"{observation.text}\n{_NO_PICTURE}".lstrip()
    return replace(observation, text=text, image=b"", media="")


def _digest_reply(reply: Reply) -> str:
    return hashlib.sha256(json.dumps(reply.native, sort_keys=True).encode()).hexdigest()
