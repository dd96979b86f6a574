"""A record: any model, with each request and reply recorded as a line of JSON."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from hotdesk.brain.models.clean import clean_text
from hotdesk.brain.models.codec import item_from_json, item_to_json, read_record, reply_to_json
from hotdesk.brain.models.replay import Replay
from hotdesk.brain.models.seam import Item, LanguageModel, ModelRequest, Reply
from hotdesk.dataclass import dataclass
from hotdesk.errors import ModelError, make_printable


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    step: str
    system: str
    kept: int
    """Number of items it has in common with the beginning of the previous history."""
    history: list[object]
    tools: list[object]
    screen: list[object] | None
    tokens: int
    think: bool


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """A request to a model, and its reply or the reason why there is none."""

    request: RecordedRequest
    reply: Reply | None = None
    error: str = ""
    ms: int = 0
    """Milliseconds the reply took; 0 in older recordings."""
    part: str = ""
    """Name of the conversation if the recording has several; empty for the job's own."""


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    """The origin of a recording: the first line of its file, `{"recording": {…}}`. Older recordings have none."""

    models: tuple[str, ...] = ()
    """Names of the models that were called."""
    answered_by: str = ""
    """Description of who replied in their place; empty if the models themselves did."""

    @property
    def author(self) -> str:
        """Return who replied; empty if the recording does not say so."""
        return self.answered_by or ", ".join(self.models)


class RecordingModel:
    """A model whose requests and replies are recorded."""

    def __init__(self, model: LanguageModel, file: Path | TextIO, part: str = "") -> None:
        """Append to a file that no one else may read; links are not followed. `part` names the conversation."""
        self.model = model
        self.part = part
        self.name = model.name
        self.window = model.window
        self.address = getattr(model, "address", "")
        self.before: list[Item] = []
        self.file = open_to_append(file) if isinstance(file, Path) else file

    @property
    def native_screen(self) -> bool:
        return getattr(self.model, "native_screen", False)

    @property
    def sees(self) -> bool:
        return self.model.sees

    async def ask(self, request: ModelRequest) -> Reply:
        """Ask the model, and record its reply or its error."""
        recorded, began = self.encode_request(request), time.monotonic()
        try:
            reply = await self.model.ask(request)
        except ModelError as e:
            self.write({"request": recorded, "error": make_printable(str(e))})
            raise
        ms = int((time.monotonic() - began) * 1000)
        self.write({"request": recorded, "reply": reply_to_json(reply), "ms": ms})
        return reply

    def encode_request(self, request: ModelRequest) -> dict[str, Any]:
        """Encode a request: of its history only the items after those it has in common with the previous one."""
        history = list(request.history)
        pairs = enumerate(zip(self.before, history, strict=False))
        common = next((n for n, (old, new) in pairs if old != new), min(len(self.before), len(history)))
        self.before = history
        return {
            "step": request.step,
            "system": request.system,
            "kept": common,
            "history": [item_to_json(item) for item in history[common:]],
            "tools": [{"name": tool.name, "what": tool.what, "schema": tool.build_schema()} for tool in request.tools],
            "screen": request.screen,
            "tokens": request.tokens,
            "think": request.think,
        }

    def write(self, line: dict[str, Any]) -> None:
        line = {**line, "part": self.part} if self.part else line
        self.file.write(clean_text(json.dumps(line, ensure_ascii=False)) + "\n")
        self.file.flush()

    async def close(self) -> None:
        self.file.close()
        await self.model.close()


def read_histories(file: Path) -> list[list[Item]]:
    """Read the history of each request in the job's own conversation."""
    found: list[list[Item]] = []
    for line in read_lines(file):
        if line.part:
            continue
        before = found[-1][: line.request.kept] if found else []
        found.append(before + [item_from_json(item) for item in line.request.history])
    return found


def read_replies(file: Path) -> dict[str, list[Reply]]:
    """Read the replies of the job's own conversation by step, in order; an incomplete last line is ignored."""
    return read_parts(file).get("", {})


def read_parts(file: Path) -> dict[str, dict[str, list[Reply]]]:
    """Read the replies of every conversation of a recording by part and step, in order."""
    found: dict[str, dict[str, list[Reply]]] = {}
    for line in read_lines(file):
        if line.reply is not None:
            found.setdefault(line.part, {}).setdefault(line.request.step, []).append(line.reply)
    return found


def read_lines(file: Path) -> list[RecordedLine]:
    numbered = [(number, line) for number, line in enumerate(_load(file), 1) if not _is_header(line)]
    return [read_record(RecordedLine, line, f"line {number} of {file}") for number, line in numbered]


def read_header(file: Path) -> RecordingHeader:
    """Read the header of a recording; return an empty one if it has none."""
    with _translate_errors(file), file.open(encoding="utf-8") as opened:
        first = opened.readline()
        line = json.loads(first) if first.endswith("\n") else {}
    return read_record(RecordingHeader, line["recording"] if _is_header(line) else {}, f"line 1 of {file}")


def write_header(file: Path, header: RecordingHeader) -> None:
    """Write the header of a recording, unless the file has lines already."""
    with open_to_append(file) as opened:
        if os.fstat(opened.fileno()).st_size == 0:
            opened.write(json.dumps({"recording": asdict(header)}, ensure_ascii=False) + "\n")


def replay(file: Path) -> Replay:
    """Return a model that repeats the replies of a recording; its name says whose they are."""
    return Replay(describe_recording(file), read_replies(file))


def describe_recording(file: Path) -> str:
    """Return the name of a recording, with who gave its replies."""
    author = read_header(file).author
    return f"record {file.name}" + (f" ({author})" if author else "")


def _load(file: Path) -> list[Any]:
    with _translate_errors(file):
        return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]


@contextmanager
def _translate_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as e:
        raise ModelError(f"the recording {file} cannot be read: {make_printable(str(e))[:200]}; record it again") from e


def _is_header(line: object) -> bool:
    return isinstance(line, dict) and set(line) == {"recording"}


def open_to_append(file: Path) -> TextIO:
    """Open a file that no one else may read; links are not followed."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "a", encoding="utf-8")
