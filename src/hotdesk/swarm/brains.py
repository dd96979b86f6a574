"""The models of a swarm: a planner, one worker an item that knows of no other, and one for the report."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol, TextIO

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.record import RecordingModel, describe_recording, read_parts
from hotdesk.brain.models.replay import Replay
from hotdesk.brain.models.scripted import Scene, ScriptedModel, load
from hotdesk.brain.models.seam import LanguageModel, Reply
from hotdesk.brain.seam import Brain
from hotdesk.brief.brief import Brief
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError

REDUCE = "REDUCE"
"""What a script calls the plan of its report; its items' is `PLAN`."""
_REPORT = "report"
"""The report's conversation in a recording."""


class Brains(Protocol):
    """Gives a swarm its brains."""

    @property
    def exact(self) -> bool:
        """Return whether decisions were fixed beforehand: a script's, or recorded ones."""
        ...

    def choose_planner(self, brief: Brief) -> Brain:
        """Return what plans for the kind of item."""
        ...

    def take(self, brief: Brief, item: str) -> Brain:
        """Return the brain for one item. Closing it releases what belongs to that item alone."""
        ...

    def reduce(self, brief: Brief) -> Brain:
        """Return the brain that builds the report."""
        ...

    async def close(self) -> None:
        """Close connections. A second call does nothing."""
        ...


class SharedBrain(ModelBrain):
    """A brain of models that others use, too: closing it closes none of them."""

    async def close(self) -> None:
        """Leave the models as they are."""


@dataclass(slots=True)
class ScriptBrains:
    """A script's functions: `PLAN` for each item, `REDUCE` for the report. The script is run twice, and read once."""

    source: bytes
    path: Path
    turn: Callable[[ScriptedModel], LanguageModel] | None = None
    """Puts an adversary in the place of whoever takes an item."""
    exact: bool = True
    scenes: dict[str, Scene] = field(init=False)

    @classmethod
    def from_base64(cls, source: str, path: Path) -> ScriptBrains:
        return cls(base64.b64decode(source), path)

    def __post_init__(self) -> None:
        self.scenes = load(self.source, self.path)

    def choose_planner(self, brief: Brief) -> Brain:
        return self._make(brief, "")

    def take(self, brief: Brief, item: str) -> Brain:
        return self._make(brief, item)

    def reduce(self, brief: Brief) -> Brain:
        model = ScriptedModel(self.source, self.path, load(self.source, self.path, REDUCE))
        return ModelBrain(brief, [model], [model])

    def _make(self, brief: Brief, item: str) -> ModelBrain:
        script = ScriptedModel(self.source, self.path, self.scenes, item)
        model: LanguageModel = self.turn(script) if self.turn is not None else script
        return ModelBrain(brief, [model], [model])

    async def close(self) -> None:
        """Do nothing: each brain was closed by its user."""


@dataclass(slots=True)
class ModelBrains:
    """Providers' models, shared by all items: their connections and their limits are one."""

    planners: Sequence[LanguageModel]
    workers: Sequence[LanguageModel]
    exact: bool = False
    record: TextIO | None = None
    """Where every request and reply is written down, each item's as a conversation of its own."""

    def choose_planner(self, brief: Brief) -> Brain:
        """Return who plans for the kind of item."""
        return self._make(brief, "")

    def take(self, brief: Brief, item: str) -> Brain:
        """Return who takes one item: the small model, and whoever plans where that failed."""
        return self._make(brief, _name_part(item))

    def reduce(self, brief: Brief) -> Brain:
        """Return who builds the report."""
        return self._make(brief, _REPORT)

    def _make(self, brief: Brief, part: str) -> Brain:
        if (file := self.record) is None:
            return SharedBrain(brief, self.planners, self.workers)
        recorded = {id(each): RecordingModel(each, file, part) for each in (*self.planners, *self.workers)}
        planners, workers = ([recorded[id(each)] for each in models] for models in (self.planners, self.workers))
        return SharedBrain(brief, planners, workers)

    async def close(self) -> None:
        """Let go of connections, and of the recording."""
        for model in {id(each): each for each in (*self.planners, *self.workers)}.values():
            await model.close()
        if self.record is not None:
            self.record.close()


@dataclass(slots=True)
class ReplayBrains:
    """A recording of a swarm: every item's worker repeats what was said for that item, in whatever order items go."""

    name: str
    parts: Mapping[str, Mapping[str, Sequence[Reply]]]
    """Replies by conversation and step."""
    replays: dict[str, Replay] = field(default_factory=dict)
    """Conversations that have begun: another attempt at an item goes on where the last one was."""

    @classmethod
    def read(cls, file: Path) -> ReplayBrains:
        """Read a recording that `ModelBrains` made."""
        return cls(describe_recording(file), read_parts(file))

    @property
    def exact(self) -> bool:
        """Return True: what is decided was fixed beforehand, and the certificate says so."""
        return True

    def choose_planner(self, brief: Brief) -> Brain:
        """Return who plans."""
        return self._make(brief, "")

    def take(self, brief: Brief, item: str) -> Brain:
        """Return who takes one item."""
        return self._make(brief, _name_part(item))

    def reduce(self, brief: Brief) -> Brain:
        """Return who builds the report."""
        return self._make(brief, _REPORT)

    def _make(self, brief: Brief, part: str) -> Brain:
        if part not in self.replays:
            self.replays[part] = Replay(f"{self.name}, {part}" if part else self.name, self.parts.get(part, {}))
        return ModelBrain(brief, [self.replays[part]], [self.replays[part]])

    async def close(self) -> None:
        """Do nothing: there is nothing to let go of."""


def _name_part(item: str) -> str:
    """Name an item's conversation in a recording."""
    return f"item {item}"


def require_reduce(brief: Brief, brains: Brains) -> None:
    """Refuse a script that cannot build the report before any item is begun."""
    if brief.reduce is not None and isinstance(brains, ScriptBrains):
        try:
            load(brains.source, brains.path, REDUCE)
        except BriefError as e:
            raise BriefError(f"{e}; the brief has [reduce], so the script needs {REDUCE} in addition to PLAN") from None
