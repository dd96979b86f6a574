"""Asks the models of a step in turn, the first one that replies; shortens a conversation that is too long for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace

from hotdesk.brain.compaction import estimate_tokens, fit
from hotdesk.brain.models.seam import LanguageModel, ModelRequest, Reply, RequestTooLongError
from hotdesk.dataclass import dataclass
from hotdesk.errors import ModelError, make_printable

_REFUSAL_CHARS = 300


def make_asker(
    models: Sequence[LanguageModel], note_unused: Callable[[Reply], None]
) -> Callable[[ModelRequest], Awaitable[Reply]]:
    """Return a function that asks the first model that replies; one that failed or refused is not asked again."""
    return Asker(list(models), note_unused).ask


@dataclass(slots=True)
class Asker:
    """The models of one step that are left."""

    models: list[LanguageModel]
    note_unused: Callable[[Reply], None]
    """Records a reply that was paid for and is not used."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why models are not asked again, by name."""
    room: int | None = None
    """Tokens of a conversation that a model accepts, once a provider refused a longer one."""

    async def ask(self, request: ModelRequest) -> Reply:
        """Return the next reply. If the last model refuses, its reply has `stop` "refused", and no calls."""
        while True:
            model = self.models[0]
            try:
                reply = await self.ask_fitting(model, request)
            except ModelError as e:
                self.failures[model.name] = str(e)
                if len(self.models) == 1:
                    raise ModelError("; then ".join(self.failures.values())) from e
            else:
                if reply.stop != "refused":
                    return reply
                if len(self.models) == 1:
                    return replace(reply, calls=(), native=())
                self.failures[model.name] = f"{model.name} refused: {describe_refusal(reply)}"
                self.note_unused(replace(reply, calls=(), native=()))
            del self.models[0]

    async def ask_fitting(self, model: LanguageModel, request: ModelRequest) -> Reply:
        """Ask a model; if the conversation is too long for it, ask once more with half of it."""
        request = replace(request, has_alternative=len(self.models) > 1)
        fitted = self.fit(request)
        refusal: RequestTooLongError | None = None
        try:
            reply = await model.ask(fitted)
            if reply.stop != "window" or reply.calls:
                return reply
        except RequestTooLongError as e:
            refusal = e
        self.room = sum(map(estimate_tokens, fitted.history)) // 2
        shorter = self.fit(request)
        if shorter == fitted:
            if refusal is not None:
                raise refusal
            return reply
        if refusal is None:
            self.note_unused(reply)
        return await model.ask(shorter)

    def fit(self, request: ModelRequest) -> ModelRequest:
        return request if self.room is None else replace(request, history=fit(request.history, self.room))


def describe_refusal(reply: Reply) -> str:
    """Return what a model said when it refused, in one printable line."""
    return make_printable(" ".join(reply.text.split()))[:_REFUSAL_CHARS] or "it gave no reason"
