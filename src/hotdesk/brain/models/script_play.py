"""Plays functions as a model: each runs until it calls tools, and continues with their results.

A function gets no input except the results of its calls. So one that was interrupted in the middle of a step, even in
another process, can be resumed by running it again with the same results.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, Protocol

from hotdesk.brain.models.script_hands import Ask, Hands
from hotdesk.brain.models.seam import Item, ModelRequest, Reply, Results, TokenUsage
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Done
from hotdesk.errors import BriefError, HotdeskError, ModelError, make_printable
from hotdesk.tool import Call, Observation

_MAX_REASON_CHARS = 2000
"""Characters of a reason or summary."""
WINDOW = 1 << 40
"""Tokens: a script is not a model, and forgets nothing."""
FREE = TokenUsage(dollars=0.0)


class ScriptFunction(Protocol):
    """One function of a script."""

    __name__: str

    def __call__(self, hands: Hands, /) -> Coroutine[Any, Any, object]:
        """Carry out the step."""
        ...


@dataclass(slots=True)
class Play:
    """One function that is run for one step."""

    step: str
    name: str
    """The model name of its replies."""
    act: ScriptFunction
    hands: Hands
    running: Coroutine[Any, Any, object] | None = None
    calls: tuple[Call, ...] = ()
    """Calls whose results it waits for."""
    count: int = 0

    def begin(self) -> Reply:
        self.running = self.act(self.hands)
        return self.go_on(lambda running: running.send(None))

    def tell(self, observations: Sequence[Observation]) -> Reply:
        """Continue with the results of its last calls; a function whose end was refused gives up."""
        if self.running is None:
            return self.make_reply(
                [("give_up", {"why": "; ".join(each.text for each in observations)[:_MAX_REASON_CHARS]})]
            )
        return self.go_on(lambda running: running.send(tuple(observations)))

    def go_on(self, move: Callable[[Coroutine[Any, Any, object]], object]) -> Reply:
        assert self.running is not None
        try:
            asks = move(self.running)
        except StopIteration as end:
            self.running = None
            return self.make_reply([_choose_ending(self.act, end.value)])
        except HotdeskError:
            self.running = None
            raise
        except Exception as e:  # noqa: BLE001 - a script's own error is why its step failed
            self.running = None
            return self.make_reply([("give_up", {"why": f"{type(e).__name__}: {e}"[:_MAX_REASON_CHARS]})])
        if not isinstance(asks, tuple):
            self.close()
            raise BriefError(
                f"step {self.step} of the script awaits something that is not a method of `hands`; "
                "await only calls such as `hands.run(...)`"
            )
        return self.make_reply(asks)

    def make_reply(self, asks: Sequence[Ask]) -> Reply:
        words, self.hands.words[:] = "\n".join(self.hands.words), []
        first = self.count + 1
        self.count += len(asks)
        self.calls = tuple(Call(f"use-{number}", *ask) for number, ask in enumerate(asks, first))
        return Reply(text=words, calls=self.calls, stop="calls", usage=FREE, model=self.name)

    def waits_for(self, results: Results) -> bool:
        return tuple(call for call, _ in results.pairs) == self.calls

    def close(self) -> None:
        """Interrupt the function. A second call does nothing."""
        running, self.running = self.running, None
        if running is not None:
            with suppress(RuntimeError):  # it awaits another call even now
                running.close()


@dataclass(slots=True)
class Player:
    name: str
    item: str = ""
    """The item of a swarm that it plays for."""
    playing: Play | None = field(default=None)

    def ask(self, request: ModelRequest, act: ScriptFunction) -> Reply:
        results = list(_iterate_results(request.history))
        playing = self.playing
        if results and playing is not None and playing.step == request.step and playing.waits_for(results[-1]):
            return playing.tell([observation for _, observation in results[-1].pairs])
        return self.play(request, act, results)

    def play(self, request: ModelRequest, act: ScriptFunction, results: Sequence[Results]) -> Reply:
        self.close()
        playing = self.playing = Play(
            request.step, self.name, act, Hands(request.attempt, request.before, item=self.item)
        )
        reply = playing.begin()
        for place, each in enumerate(results, 1):
            if not _is_same(each, playing.calls):
                raise ModelError(_describe_divergence(request.step, place, each, playing.calls))
            reply = playing.tell([observation for _, observation in each.pairs])
        return reply

    def close(self) -> None:
        """Interrupt the running function. A second call does nothing."""
        if self.playing is not None:
            self.playing.close()


def _iterate_results(history: Sequence[Item]) -> Iterator[Results]:
    return (each for each in history if isinstance(each, Results))


def _is_same(results: Results, calls: Sequence[Call]) -> bool:
    recorded = [(call.tool, _normalize_json(call.arguments)) for call, _ in results.pairs]
    return recorded == [(call.tool, _normalize_json(call.arguments)) for call in calls]


def _normalize_json(value: object) -> object:
    match value:
        case dict():
            return {str(key): _normalize_json(each) for key, each in value.items()}
        case list() | tuple():
            return [_normalize_json(each) for each in value]
    return value


def _describe_divergence(step: str, place: int, results: Results, calls: Sequence[Call]) -> str:
    before, now = (", ".join(call.tool for call in each) for each in ([call for call, _ in results.pairs], calls))
    return (
        f"the script made other calls than before: call {place} of step {step} was {make_printable(before)[:200]}, "
        f"and is now {make_printable(now)[:200]} or has other arguments; start the job again"
    )


def _choose_ending(act: ScriptFunction, value: object) -> Ask:
    """Return how a function ended: by its returned text or program result, or else by its docstring."""
    if isinstance(value, Done) and not value.ok:
        return "give_up", {"why": f"exit code {value.exit_code}: {extract_last_line(value)}"[:_MAX_REASON_CHARS]}
    return "finish", {
        "summary": value[:_MAX_REASON_CHARS] if isinstance(value, str) and value.strip() else get_headline(act)
    }


def get_headline(act: ScriptFunction) -> str:
    return (inspect.getdoc(act) or act.__name__).splitlines()[0]


def extract_last_line(done: Done) -> str:
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return make_printable(lines[-1][:500]) if lines else done.reason or "no output"
