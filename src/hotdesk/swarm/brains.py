"""The models of a swarm: a planner, an independent worker for each item, and one that builds the report."""

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
"""The name of the report's plan in a script. The items' plan is `PLAN`."""
_REPORT = "report"
"""The name of the report's conversation in a recording."""


class Brains(Protocol):
    """The source of a swarm's brains."""

    @property
    def exact(self) -> bool:
        """Return whether decisions were fixed beforehand, by a script or a recording."""
        ...

    def choose_planner(self, brief: Brief) -> Brain:
        """Return the brain that makes the plan for all items."""
        ...

    def take(self, brief: Brief, item: str) -> Brain:
        """Return the brain for one item. Closing it releases only what belongs to that item."""
        ...

    def reduce(self, brief: Brief) -> Brain:
        """Return the brain that builds the report."""
        ...

    async def close(self) -> None:
        """Close connections. A second call does nothing."""
        ...


class SharedBrain(ModelBrain):
    """A brain whose models are shared with others: closing it does not close them."""

    async def close(self) -> None:
        """Do nothing: the models are shared."""


@dataclass(slots=True)
class ScriptBrains:
    """The brains of a script: `PLAN` for the items, `REDUCE` for the report. Each plan loads the script separately."""

    source: bytes
    path: Path
    turn: Callable[[ScriptedModel], LanguageModel] | None = None
    """Wraps an item's model, so that tests can put an adversary in its place."""
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
    """Models of providers, shared by all items together with their connections and rate limits."""

    planners: Sequence[LanguageModel]
    workers: Sequence[LanguageModel]
    exact: bool = False
    record: TextIO | None = None
    """File that records every request and reply, with a conversation for each item. `None`: nothing is recorded."""

    def choose_planner(self, brief: Brief) -> Brain:
        return self._make(brief, "")

    def take(self, brief: Brief, item: str) -> Brain:
        """Return the brain for one item: the worker models, and the planners where those fail."""
        return self._make(brief, _name_part(item))

    def reduce(self, brief: Brief) -> Brain:
        return self._make(brief, _REPORT)

    def _make(self, brief: Brief, part: str) -> Brain:
        if (file := self.record) is None:
            return SharedBrain(brief, self.planners, self.workers)
        recorded = {id(each): RecordingModel(each, file, part) for each in (*self.planners, *self.workers)}
        planners, workers = ([recorded[id(each)] for each in models] for models in (self.planners, self.workers))
        return SharedBrain(brief, planners, workers)

    async def close(self) -> None:
        """Close the models' connections and the recording."""
        for model in {id(each): each for each in (*self.planners, *self.workers)}.values():
            await model.close()
        if self.record is not None:
            self.record.close()


@dataclass(slots=True)
class ReplayBrains:
    """A recording of a swarm: each item's worker repeats the replies recorded for it, in whatever order items run."""

    name: str
    parts: Mapping[str, Mapping[str, Sequence[Reply]]]
    """Recorded replies by conversation and step."""
    replays: dict[str, Replay] = field(default_factory=dict)
    """Replays by conversation, so that a second attempt at an item continues where the first one ended."""

    @classmethod
    def read(cls, file: Path) -> ReplayBrains:
        """Read a recording made by `ModelBrains`."""
        return cls(describe_recording(file), read_parts(file))

    @property
    def exact(self) -> bool:
        """Return True: the decisions are recorded ones, and the certificate says so."""
        return True

    def choose_planner(self, brief: Brief) -> Brain:
        return self._make(brief, "")

    def take(self, brief: Brief, item: str) -> Brain:
        return self._make(brief, _name_part(item))

    def reduce(self, brief: Brief) -> Brain:
        return self._make(brief, _REPORT)

    def _make(self, brief: Brief, part: str) -> Brain:
        if part not in self.replays:
            self.replays[part] = Replay(f"{self.name}, {part}" if part else self.name, self.parts.get(part, {}))
        return ModelBrain(brief, [self.replays[part]], [self.replays[part]])

    async def close(self) -> None:
        """Do nothing: a replay holds no connection."""


def _name_part(item: str) -> str:
    """Return the name of an item's conversation in a recording."""
    return f"item {item}"


def require_reduce(brief: Brief, brains: Brains) -> None:
    """Raise `BriefError` before any item starts if the brief has a report and the script cannot build it."""
    if brief.reduce is not None and isinstance(brains, ScriptBrains):
        try:
            load(brains.source, brains.path, REDUCE)
        except BriefError as e:
            raise BriefError(f"{e}; the brief has [reduce], so the script needs {REDUCE} in addition to PLAN") from None
