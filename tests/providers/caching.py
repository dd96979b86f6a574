"""Computes prompt cache hits from requests by the providers' documented rules, without assumed constants."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.providers.server import CHARACTERS, PICTURE, PICTURE_TOKENS, Body, estimate_tokens

LOOKBACK = 20
"""How many blocks before a cache mark Anthropic searches for a stored prefix."""
TTL = 300.0
OPENAI_FLOOR, OPENAI_STEP = 1024, 128


@dataclass(frozen=True)
class Counts:
    """Tokens of one request: read from the cache, written to it, and neither."""

    fresh: int
    cached: int
    stored: int

    @property
    def all(self) -> int:
        return self.fresh + self.cached + self.stored

    @property
    def hit(self) -> float:
        return self.cached / self.all


@dataclass
class MarkedCache:
    """Anthropic's cache: prefixes that end at a mark are stored for five minutes, and found from later marks."""

    clock: Callable[[], float] = time.monotonic
    entries: dict[str, float] = field(default_factory=dict)
    counts: list[Counts] = field(default_factory=list)

    def count(self, body: Body, floor: int) -> Counts:
        """Process a request; return its token counts."""
        now, blocks = self.clock(), list(blocks_of(body))
        keys, sizes, total = [], [], 0
        digest = hashlib.sha256(body["model"].encode())
        for written, _ in blocks:
            digest.update(written.encode() + b"\0")
            total += estimate_tokens(written)
            keys.append(digest.hexdigest())
            sizes.append(total)
        marks = [place for place, (_, marked) in enumerate(blocks) if marked and sizes[place] >= floor]
        seen = (place for mark in marks for place in range(max(mark - LOOKBACK, -1) + 1, mark + 1))
        hit = max((place for place in seen if self.entries.get(keys[place], 0) > now), default=-1)
        for place in {*marks, *([hit] if hit >= 0 else [])}:
            self.entries[keys[place]] = now + TTL
        cached = sizes[hit] if hit >= 0 else 0
        kept = sizes[marks[-1]] if marks else 0
        found = Counts(total - max(kept, cached), cached, max(kept - cached, 0))
        self.counts.append(found)
        return found


def blocks_of(body: Body) -> Iterator[tuple[str, bool]]:
    """Yield a request's blocks in reading order, without marks, and whether each had one.

    The thinking parameters are part of the cache key of messages, but not of tools and system.
    """
    for block in (*body.get("tools", []), *body.get("system", [])):
        yield plain(block), "cache_control" in block
    before = json.dumps(body.get("thinking"), sort_keys=True)
    for message in body["messages"]:
        for block in message["content"]:
            yield before + message["role"] + plain(block), "cache_control" in block
            before = ""


def plain(block: Body) -> str:
    return json.dumps({key: value for key, value in block.items() if key != "cache_control"}, sort_keys=True)


@dataclass
class AutomaticCache:
    """OpenAI's cache: the longest prefix of a recent request with the same key, in steps of 128 tokens from 1024 on."""

    clock: Callable[[], float] = time.monotonic
    entries: list[tuple[str, str, float]] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)

    def count(self, body: Body) -> Counts:
        """Process a request; return its token counts."""
        now = self.clock()
        key = f"{body['model']} {body.get('prompt_cache_key', '')}"
        parts = [body.get("tools", []), body.get("instructions", ""), *body["input"]]
        written = "\n".join(weigh_pictures(json.dumps(part, sort_keys=True)) for part in parts)
        total = len(written) // CHARACTERS + 1
        known = [text for other, text, until in self.entries if other == key and until > now]
        same = max((shared(written, text) for text in known), default=0) // CHARACTERS
        cached = same // OPENAI_STEP * OPENAI_STEP if same >= OPENAI_FLOOR else 0
        self.entries.append((key, written, now + TTL))
        found = Counts(total - cached, cached, 0)
        self.counts.append(found)
        return found


def weigh_pictures(written: str) -> str:
    """Replace each picture in a text by a hash of it with as many characters as its tokens are worth."""
    return PICTURE.sub(lambda found: hashlib.sha256(found[0].encode()).hexdigest() * 100, written)


assert len("0" * 64 * 100) == PICTURE_TOKENS * CHARACTERS


def shared(text: str, other: str) -> int:
    least, most = 0, min(len(text), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if text[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least
