"""A worker's working set: the part of a step's conversation that is sent, so that it fits a model's window.

Pure, and append-only: everything that was sent is sent again unchanged, so that providers' caches hold and thinking
stays valid. Only when the window is nearly full is the conversation compacted, at a boundary between turns: the oldest
turns become one summary message after the first message, with a line for each. The remaining replies and results are
not changed. A result that fills the window by itself is shortened before it is sent for the first time.

If only the pictures are too many, the oldest are removed, enough for many turns to come, and their texts stay. A
message after the first one counts them, which makes it visible that the part before the remaining thinking has changed.

A compacted conversation can be given back and compacted again with later items: the result is the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hotdesk.brain.models.seam import Item, OurMessage, Reply, Results
from hotdesk.brain.own_tools import ASK_PERSON
from hotdesk.errors import make_printable
from hotdesk.tool import Call, Observation

HIGH = 0.8
"""How full a window is when it is compacted."""
LOW = 0.5
"""How full a window is after it was compacted."""
_NEWEST = 4
"""Newest turns that stay if they fit."""
PICTURES = 40
"""Pictures in a conversation before the oldest are removed; providers accept 100."""
PICTURE_BYTES = 16 << 20
"""Bytes of these pictures; providers accept 32 MiB in base64, which is a third longer."""
_PICTURE_TOKENS = 1600
_ITEM_TOKENS = 12
"""Tokens of a message beside its text."""
DIGEST = 0.1
"""The largest share of a window for the summary."""
LINE = 240
"""Characters of one line of the summary."""
ARGUMENTS = 80
"""Characters of a tool's arguments in a line."""
SAID = 100
"""Characters of the worker's own text in a line."""
ANSWER = 140
"""Characters of a person's answer in a line."""
SMALL = 240
"""Characters of an observation that is too short to be shortened."""
BEGINNING = "[Summary of the earlier turns of this step, one line each. The tool recall searches their full texts.]"
_UNLISTED = re.compile(r"- (\d+) earlier turns are not listed")
GONE = "[a picture was here]"
_REMOVED = re.compile(r"\[([0-9]{1,9}) older pictures were removed from this conversation; their texts are kept\.\]")


def fit(history: Sequence[Item], window_tokens: int) -> tuple[Item, ...]:
    """Return the part of a conversation that is sent to a model with room for this many tokens of it.

    It can exceed them only if the first message or the newest reply fills the window by itself.
    """
    return tuple(WorkingSet(window_tokens, history).iterate_items())


def estimate_tokens(item: Item) -> int:
    """Estimate the tokens of an item; the estimate is rather high."""
    match item:
        case OurMessage(text):
            return _ITEM_TOKENS + estimate_text_tokens(text)
        case Results(pairs):
            return _ITEM_TOKENS + sum(_estimate_observation_tokens(call, each) for call, each in pairs)
        case Reply():
            calls = sum(estimate_text_tokens(each.tool) + estimate_json_tokens(each.arguments) for each in item.calls)
            plain = estimate_text_tokens(item.text) + calls + _ITEM_TOKENS * len(item.calls)
            return _ITEM_TOKENS + max(plain, estimate_json_tokens(item.native))


def estimate_text_tokens(text: str) -> int:
    return (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) // 3 + 1


def estimate_json_tokens(value: object) -> int:
    return estimate_text_tokens(json.dumps(value, default=str)) if value else 0


def _estimate_observation_tokens(call: Call, observation: Observation) -> int:
    picture = _PICTURE_TOKENS if observation.image else 0
    return (
        _ITEM_TOKENS
        + estimate_text_tokens(call.id)
        + estimate_text_tokens(observation.text)
        + estimate_text_tokens(observation.note)
        + picture
    )


class ConversationTurn:
    """A reply, and the items up to the next reply."""

    def __init__(self, reply: Reply) -> None:
        self.items: list[Item] = [reply]
        self.costs = [estimate_tokens(reply)]
        self.pictures = 0
        self.picture_bytes = 0

    @property
    def cost(self) -> int:
        return sum(self.costs)

    def add(self, item: Item) -> None:
        self.items.append(item)
        self.costs.append(estimate_tokens(item))
        self.count_pictures()

    def put(self, number: int, item: Item) -> None:
        self.items[number], self.costs[number] = item, estimate_tokens(item)
        self.count_pictures()

    def iterate_results(self) -> Iterator[tuple[int, Results]]:
        return ((number, item) for number, item in enumerate(self.items) if isinstance(item, Results))

    def count_pictures(self) -> None:
        sizes = [len(each.image) for _, results in self.iterate_results() for _, each in results.pairs if each.image]
        self.pictures, self.picture_bytes = len(sizes), sum(sizes)

    def shorten(self, change: Callable[[Call, Observation], Observation]) -> None:
        for number, results in list(self.iterate_results()):
            self.put(number, Results(tuple((call, change(call, each)) for call, each in results.pairs)))

    def format_line(self) -> str:
        """Summarise the turn in a line that has no output of a desk, but does have a person's answer."""
        used = [_summarize_call(call, each) for _, results in self.iterate_results() for call, each in results.pairs]
        texts = [each.text for each in self.items if isinstance(each, OurMessage | Reply) and each.text]
        words = format_one_line(" ".join(texts), SAID if used else LINE - 10)
        return format_one_line("; ".join([*([f"said: {words}"] if words else []), *used]), LINE)


class WorkingSet:
    """The remaining items of a growing conversation: `fit`, an item at a time; dropped items are not stored."""

    def __init__(self, window_tokens: int, history: Sequence[Item] = ()) -> None:
        self.window = window_tokens
        self.head: list[OurMessage] = []
        """Messages before the first reply."""
        self.lines: list[str] = []
        """Lines of the summary, one for each dropped turn."""
        self.unlisted = 0
        """Number of turns that were dropped so long ago that they have no line."""
        self.removed = 0
        """Number of pictures that were removed from turns that stayed."""
        self.turns: list[ConversationTurn] = []
        for item in history:
            self.add(item)

    def add(self, item: Item) -> None:
        """Add the next item, and compact if necessary: before a request, not between a call and its result."""
        match item:
            case Reply():
                self.turns.append(ConversationTurn(item))
                return
            case _ if self.turns:
                self.turns[-1].add(item)
            case OurMessage(text) if self.head and text.startswith(BEGINNING):
                self.take_digest(text)
            case OurMessage(text) if self.head and (found := _REMOVED.fullmatch(text)):
                self.removed = int(found[1])
            case OurMessage():
                self.head.append(item)
            case Results():
                raise ValueError("the conversation with the model has tool results before any reply of the model")
        self.compact()

    def resize(self, window_tokens: int) -> None:
        if window_tokens != self.window:
            self.window = window_tokens
            self.compact()

    def take_digest(self, text: str) -> None:
        self.lines = text.split("\n")[1:]
        if self.lines and (found := _UNLISTED.match(self.lines[0])):
            self.unlisted = int(found[1])
            del self.lines[0]

    def write_digest(self) -> list[OurMessage]:
        if not self.lines and not self.unlisted:
            return []
        before = [f"- {self.unlisted} earlier turns are not listed"] if self.unlisted else []
        return [OurMessage("\n".join([BEGINNING, *before, *self.lines]))]

    def count_removed(self) -> list[OurMessage]:
        """Return a message with the number of removed pictures, if any were removed."""
        text = f"[{self.removed} older pictures were removed from this conversation; their texts are kept.]"
        return [OurMessage(text)] if self.removed else []

    def iterate_items(self) -> Iterator[Item]:
        yield from self.head[:1]
        yield from self.write_digest()
        yield from self.count_removed()
        yield from self.head[1:]
        for turn in self.turns:
            yield from turn.items

    def estimate_cost(self) -> int:
        ours = (*self.head, *self.write_digest(), *self.count_removed())
        return sum(map(estimate_tokens, ours)) + sum(turn.cost for turn in self.turns)

    def fits(self, share: float) -> bool:
        return self.estimate_cost() <= share * self.window

    def has_many_pictures(self, share: float) -> bool:
        count = sum(turn.pictures for turn in self.turns)
        weight = sum(turn.picture_bytes for turn in self.turns)
        return count > share * PICTURES or weight > share * PICTURE_BYTES

    def compact(self) -> None:
        """Remove pictures if there are too many; summarise the oldest turns if the window is nearly full."""
        if self.has_many_pictures(1.0):
            self.remove_pictures()
        if self.fits(HIGH):
            return
        for newest, share in ((_NEWEST, LOW), (2, HIGH), (1, HIGH)):
            while len(self.turns) > newest and not self.fits(share):
                self.drop()
        if self.turns and not self.fits(HIGH):
            self.shorten_last(self.turns[-1])

    def remove_pictures(self) -> None:
        """Remove the oldest pictures until there is room for many more; those of the newest turn stay."""
        for turn in self.turns[:-1]:
            if not self.has_many_pictures(LOW):
                return
            if turn.pictures:
                self.removed += turn.pictures
                turn.shorten(lambda _, each: _drop_picture(each))

    def drop(self) -> None:
        """Replace the oldest turn by a line of the summary; drop the oldest lines if the summary is too long."""
        self.lines.append("- " + self.turns.pop(0).format_line())
        while self.lines and estimate_tokens(self.write_digest()[0]) > max(DIGEST * self.window, LINE):
            del self.lines[0]
            self.unlisted += 1

    def shorten_last(self, turn: ConversationTurn) -> None:
        """Shorten the results of the newest turn if it fills the window by itself; it was not sent yet."""
        longest = self.window
        while not self.fits(HIGH) and longest > SMALL:
            turn.shorten(lambda _, each, most=longest: _clip_observation(each, most))  # type: ignore[misc]
            longest //= 2
        if not self.fits(HIGH):
            turn.shorten(lambda _, each: _drop_picture(each))
        if not self.fits(HIGH):
            turn.shorten(_shorten_to_line)


def _shorten_to_line(call: Call, observation: Observation) -> Observation:
    if len(observation.text) <= SMALL:
        return _drop_picture(observation)
    find = f'; recall("{words}") finds it' if (words := extract_words(observation.text)) else ""
    picture = "; a picture was here" if observation.image else ""
    line = f"[{format_one_line(call.tool, 40)}: {describe_outcome(observation)}{picture}{find}]"
    return replace(observation, text=line, image=b"", media="", note=format_one_line(observation.note, SMALL))


def _drop_picture(observation: Observation) -> Observation:
    if not observation.image:
        return observation
    return replace(observation, text=f"{observation.text}\n{GONE}".lstrip(), image=b"", media="")


def _clip_observation(observation: Observation, longest: int) -> Observation:
    if len(observation.text) <= longest:
        return observation
    half = longest // 2
    middle = f"\n[… {len(observation.text) - 2 * half:,} characters are left out here; search them with recall …]\n"
    return replace(observation, text=observation.text[:half] + middle + observation.text[-half:])


def _summarize_call(call: Call, observation: Observation) -> str:
    """Describe a call: tool, arguments and outcome, or a person's answer."""
    came = format_one_line(observation.text, ANSWER) if call.tool == ASK_PERSON.name else describe_outcome(observation)
    return (
        f"{call.tool} {format_one_line(json.dumps(call.arguments, ensure_ascii=False, default=str), ARGUMENTS)}: {came}"
    )


def describe_outcome(observation: Observation) -> str:
    return f"{'ok' if observation.ok else 'failed'}, {len(observation.text):,} characters"


def extract_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text[:400])[:6])[:60]


def format_one_line(text: str, longest: int) -> str:
    line = make_printable(" ".join(text[: 4 * longest].split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"
