"""A worker's working set: what of a step's conversation is sent, so that it fits a model's window.

Pure, and steady: what was cut stays cut as a conversation grows, so that providers' caches hold. Nothing is cut until
the window is nearly full, and then enough for many turns. First old pictures go, then old observations become a line,
then the oldest turns become a line each in one message after the first. The first message and the newest turns stay
as they are; a reply that stays is never edited, and each call keeps its result.

What is cut may be given back to be fitted again with what came since: the outcome is the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hotdesk.brain.models.seam import Item, OurMessage, Reply, Results
from hotdesk.brain.own_tools import ASK_PERSON
from hotdesk.errors import printable
from hotdesk.tool import Call, Observation

HIGH = 0.8
"""How full a window is when it is cut."""
LOW = 0.5
"""And how full it is then."""
_NEWEST = 4
"""Turns that stay as they are, while they fit."""
PICTURES = 20
"""Pictures a conversation may have before they are cut to the newest."""
RETAINED_PICTURES = 3
_PICTURE_TOKENS = 1600
_ITEM_TOKENS = 12
"""What a message costs beside its words."""
DIGEST = 0.1
"""How much of a window the lines of dropped turns may take."""
LINE = 240
"""Characters such a line may have."""
ARGUMENTS = 80
"""And what of it a tool's arguments may have."""
ANSWER = 140
"""And a person's answer."""
SMALL = 240
"""Characters of an observation that is not worth shrinking."""
BEGINNING = "[Earlier turns of this step, in a line each; recall finds what they showed.]"
_UNLISTED = re.compile(r"- (\d+) turns before these")
GONE = "[a picture was here]"


def fit(history: Sequence[Item], window_tokens: int) -> tuple[Item, ...]:
    """Give what of a conversation is sent to a model with room for so many tokens of it.

    Only a first message or a newest reply that fills the window by itself can make it more.
    """
    return tuple(WorkingSet(window_tokens, history).items())


def tokens(item: Item) -> int:
    """Estimate what an item costs, rather too much."""
    match item:
        case OurMessage(text):
            return _ITEM_TOKENS + text_tokens(text)
        case Results(pairs):
            return _ITEM_TOKENS + sum(_observation_tokens(call, each) for call, each in pairs)
        case Reply():
            calls = sum(text_tokens(each.tool) + json_tokens(each.arguments) for each in item.calls)
            plain = text_tokens(item.text) + calls + _ITEM_TOKENS * len(item.calls)
            return _ITEM_TOKENS + max(plain, json_tokens(item.native))


def text_tokens(text: str) -> int:
    """Estimate what a text costs."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) // 3 + 1


def json_tokens(value: object) -> int:
    """Estimate what a value costs that is sent as JSON."""
    return text_tokens(json.dumps(value, default=str)) if value else 0


def _observation_tokens(call: Call, observation: Observation) -> int:
    """Estimate what an observation costs."""
    picture = _PICTURE_TOKENS if observation.image else 0
    return _ITEM_TOKENS + text_tokens(call.id) + text_tokens(observation.text) + text_tokens(observation.note) + picture


class MemoryTurn:
    """A reply, and what followed until the next."""

    def __init__(self, reply: Reply) -> None:
        self.items: list[Item] = [reply]
        self.costs = [tokens(reply)]
        self.pictures = 0

    @property
    def cost(self) -> int:
        """Estimate what it costs."""
        return sum(self.costs)

    def add(self, item: Item) -> None:
        """Take what followed."""
        self.items.append(item)
        self.costs.append(tokens(item))
        self.pictures = self.count_pictures()

    def put(self, number: int, item: Item) -> None:
        """Have another item in one's place."""
        self.items[number], self.costs[number] = item, tokens(item)
        self.pictures = self.count_pictures()

    def results(self) -> Iterator[tuple[int, Results]]:
        """Give where results are."""
        return ((number, item) for number, item in enumerate(self.items) if isinstance(item, Results))

    def count_pictures(self) -> int:
        """Count its pictures."""
        return sum(bool(each.image) for _, results in self.results() for _, each in results.pairs)

    def shrink(self) -> None:
        """Make each large observation a line."""
        for number, results in self.results():
            self.put(number, Results(tuple((call, _shorten_to_line(call, each)) for call, each in results.pairs)))

    def blind(self) -> None:
        """Take its pictures away."""
        for number, results in self.results():
            self.put(number, Results(tuple((call, _drop_picture(each)) for call, each in results.pairs)))

    def clip(self, longest: int) -> None:
        """Leave beginning and end of each observation longer than so many characters."""
        for number, results in self.results():
            self.put(number, Results(tuple((call, clip_observation(each, longest)) for call, each in results.pairs)))

    def line(self) -> str:
        """Say what happened, in a line of ours: nothing a desk showed is in it, but what a person answered is."""
        used = [_summarize_call(call, each) for _, results in self.results() for call, each in results.pairs]
        texts = [each.text for each in self.items if isinstance(each, OurMessage | Reply) and each.text]
        return one_line("; ".join(used) or f"said: {' '.join(texts)}", LINE)


class WorkingSet:
    """What is left of a conversation that grows: `fit`, an item at a time, and nothing that was cut is held."""

    def __init__(self, window_tokens: int, history: Sequence[Item] = ()) -> None:
        self.window = window_tokens
        self.head: list[OurMessage] = []
        """What was said before the first reply."""
        self.lines: list[str] = []
        """What dropped turns became."""
        self.unlisted = 0
        """Turns dropped so long ago that they have no line."""
        self.turns: list[MemoryTurn] = []
        for item in history:
            self.add(item)

    def add(self, item: Item) -> None:
        """Take the next item, and cut when it is time."""
        match item:
            case Reply():
                self.turns.append(MemoryTurn(item))
                return
            case _ if self.turns:
                self.turns[-1].add(item)
            case OurMessage(text) if self.head and text.startswith(BEGINNING):
                self.take_digest(text)
            case OurMessage():
                self.head.append(item)
            case Results():
                raise ValueError("results before any reply")
        self.cut()

    def resize(self, window_tokens: int) -> None:
        """Have another window from now on."""
        if window_tokens != self.window:
            self.window = window_tokens
            self.cut()

    def take_digest(self, text: str) -> None:
        """Go on from what was cut before."""
        self.lines = text.split("\n")[1:]
        if self.lines and (found := _UNLISTED.match(self.lines[0])):
            self.unlisted = int(found[1])
            del self.lines[0]

    def digest(self) -> list[OurMessage]:
        """Give what dropped turns became, if there are any."""
        if not self.lines and not self.unlisted:
            return []
        before = [f"- {self.unlisted} turns before these"] if self.unlisted else []
        return [OurMessage("\n".join([BEGINNING, *before, *self.lines]))]

    def items(self) -> Iterator[Item]:
        """Give all that is left, in order."""
        yield from self.head[:1]
        yield from self.digest()
        yield from self.head[1:]
        for turn in self.turns:
            yield from turn.items

    def cost(self) -> int:
        """Estimate what all of it costs."""
        return sum(map(tokens, (*self.head, *self.digest()))) + sum(turn.cost for turn in self.turns)

    def fits(self, share: float) -> bool:
        """Say whether it takes no more than a share of the window."""
        return self.cost() <= share * self.window

    def cut(self) -> None:
        """Once it is nearly too much, cut the oldest until there is room again; what is new only if it must be."""
        full = not self.fits(HIGH)
        if full or sum(turn.pictures for turn in self.turns) > PICTURES:
            self.cut_pictures()
        if not full:
            return
        for newest, share in ((_NEWEST, LOW), (2, HIGH), (1, HIGH)):
            self.cut_but(newest, share)
        if self.turns and not self.fits(HIGH):
            self.cut_last(self.turns[-1])

    def cut_pictures(self) -> None:
        """Leave the newest few."""
        count = 0
        for turn in reversed(self.turns):
            if count >= RETAINED_PICTURES:
                turn.blind()
            count += turn.pictures

    def cut_but(self, newest: int, share: float) -> None:
        """Shrink, then drop, the oldest turns but the newest, until what is left fits a share."""
        for turn in self.turns[:-newest]:
            if self.fits(share):
                return
            turn.shrink()
        while len(self.turns) > newest and not self.fits(share):
            self.drop()

    def drop(self) -> None:
        """Make the oldest turn a line; when these are too much the oldest of them go."""
        self.lines.append("- " + self.turns.pop(0).line())
        while self.lines and tokens(self.digest()[0]) > max(DIGEST * self.window, LINE):
            del self.lines[0]
            self.unlisted += 1

    def cut_last(self, turn: MemoryTurn) -> None:
        """Clip what a newest turn showed, ever shorter, when it fills the window by itself."""
        longest = self.window
        while not self.fits(HIGH) and longest > SMALL:
            turn.clip(longest)
            longest //= 2
        if not self.fits(HIGH):
            turn.blind()
        if not self.fits(HIGH):
            turn.shrink()


def _shorten_to_line(call: Call, observation: Observation) -> Observation:
    """Say what was observed in a line, unless it is little."""
    if len(observation.text) <= SMALL:
        return _drop_picture(observation)
    find = f'; recall("{words}") finds it' if (words := extract_words(observation.text)) else ""
    picture = "; a picture was here" if observation.image else ""
    line = f"[{one_line(call.tool, 40)}: {outcome(observation)}{picture}{find}]"
    return replace(observation, text=line, image=b"", media="", note=one_line(observation.note, SMALL))


def _drop_picture(observation: Observation) -> Observation:
    """Say that there was a picture."""
    if not observation.image:
        return observation
    return replace(observation, text=f"{observation.text}\n{GONE}".lstrip(), image=b"", media="")


def clip_observation(observation: Observation, longest: int) -> Observation:
    """Leave beginning and end of a long text."""
    if len(observation.text) <= longest:
        return observation
    half = longest // 2
    middle = f"\n[… {len(observation.text) - 2 * half:,} characters are left out here; recall finds them …]\n"
    return replace(observation, text=observation.text[:half] + middle + observation.text[-half:])


def _summarize_call(call: Call, observation: Observation) -> str:
    """Say what was used with what, and how it went; of a person's answer its words."""
    came = one_line(observation.text, ANSWER) if call.tool == ASK_PERSON.name else outcome(observation)
    return f"{call.tool} {one_line(json.dumps(call.arguments, ensure_ascii=False, default=str), ARGUMENTS)}: {came}"


def outcome(observation: Observation) -> str:
    """Say how it went, and how much there was to read."""
    return f"{'ok' if observation.ok else 'failed'}, {len(observation.text):,} characters"


def extract_words(text: str) -> str:
    """Give a few words a text begins with, for finding it."""
    return " ".join(re.findall(r"\w+", text[:400])[:6])[:60]


def one_line(text: str, longest: int) -> str:
    """Write a text in a line of so many characters at most."""
    line = printable(" ".join(text[: 4 * longest].split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"
