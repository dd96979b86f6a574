"""A record: any model, with each request and reply written down as a line of JSON."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotdesk.brain.models.codec import item_from_json, item_to_json, read_record, reply_to_json
from hotdesk.brain.models.replay import Replay
from hotdesk.brain.models.seam import Item, LanguageModel, ModelRequest, Reply
from hotdesk.errors import ModelError, printable


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """What a model was asked."""

    step: str
    system: str
    kept: int
    """Items of the history before, with which this one begins."""
    history: list[object]
    tools: list[object]
    screen: list[object] | None
    tokens: int
    think: bool


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """What a model was asked, and its reply or why there is none."""

    request: RecordedRequest
    reply: Reply | None = None
    error: str = ""


class RecordingModel:
    """A model that is asked as it is, and written down."""

    def __init__(self, model: LanguageModel, file: Path) -> None:
        """Append to a file that nobody else may read; a link is not followed."""
        self.model = model
        self.name = model.name
        self.window = model.window
        self.native_screen = getattr(model, "native_screen", False)
        self.sees = model.sees
        self.before: list[Item] = []
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.file = os.fdopen(descriptor, "a", encoding="utf-8")

    async def ask(self, request: ModelRequest) -> Reply:
        """Ask the model, and write down what was said; also that nothing was."""
        recorded = self.encode_request(request)
        try:
            reply = await self.model.ask(request)
        except ModelError as e:
            self.write({"request": recorded, "error": printable(str(e))})
            raise
        self.write({"request": recorded, "reply": reply_to_json(reply)})
        return reply

    def encode_request(self, request: ModelRequest) -> dict[str, Any]:
        """Write a request: of its history only what is new since the last, after what both have in common."""
        history = list(request.history)
        pairs = enumerate(zip(self.before, history, strict=False))
        common = next((n for n, (old, new) in pairs if old != new), min(len(self.before), len(history)))
        self.before = history
        return {
            "step": request.step,
            "system": request.system,
            "kept": common,
            "history": [item_to_json(item) for item in history[common:]],
            "tools": [{"name": tool.name, "what": tool.what, "schema": tool.schema()} for tool in request.tools],
            "screen": request.screen,
            "tokens": request.tokens,
            "think": request.think,
        }

    def write(self, line: dict[str, Any]) -> None:
        """Write a line, whole."""
        self.file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.file.flush()

    async def close(self) -> None:
        """Close the file and the model."""
        self.file.close()
        await self.model.close()


def histories(file: Path) -> list[list[Item]]:
    """Read what each request of a record had as its history."""
    found: list[list[Item]] = []
    for line in lines(file):
        before = found[-1][: line.request.kept] if found else []
        found.append(before + [item_from_json(item) for item in line.request.history])
    return found


def replies(file: Path) -> dict[str, list[Reply]]:
    """Read the replies of a record, by step, in order; of a line that broke off nothing."""
    found: dict[str, list[Reply]] = {}
    for line in lines(file):
        if line.reply is not None:
            found.setdefault(line.request.step, []).append(line.reply)
    return found


def lines(file: Path) -> list[RecordedLine]:
    """Read a record's lines."""
    try:
        written = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
    except (OSError, ValueError) as e:
        raise ModelError(f"the record {file} cannot be read: {printable(str(e))[:200]}; record again") from e
    return [read_record(RecordedLine, line, f"line {n} of {file}") for n, line in enumerate(written, 1)]


def replay(file: Path) -> Replay:
    """Give a model that says what a record says."""
    return Replay(f"record {file.name}", replies(file))
