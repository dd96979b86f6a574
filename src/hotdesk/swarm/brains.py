"""The models of a swarm: a planner, one worker an item that knows of no other, and one for the report."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.scripted import Scene, ScriptedModel, load
from hotdesk.brain.models.seam import LanguageModel
from hotdesk.brain.seam import Brain
from hotdesk.brief.brief import Brief
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError

REDUCE = "REDUCE"
"""What a script calls the plan of its report; its items' is `PLAN`."""


class Brains(Protocol):
    """Gives a swarm its brains."""

    @property
    def exact(self) -> bool:
        """Return whether scripts act; they get the tools for scripts."""
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

    def choose_planner(self, brief: Brief) -> Brain:
        return SharedBrain(brief, self.planners, self.workers)

    def take(self, brief: Brief, item: str) -> Brain:
        """Return who takes one item: the small model, and whoever plans where that failed."""
        return SharedBrain(brief, self.planners, self.workers)

    def reduce(self, brief: Brief) -> Brain:
        return SharedBrain(brief, self.planners, self.workers)

    async def close(self) -> None:
        for model in {id(each): each for each in (*self.planners, *self.workers)}.values():
            await model.close()


def require_reduce(brief: Brief, brains: Brains) -> None:
    """Refuse a script that cannot build the report before any item is begun."""
    if brief.reduce is not None and isinstance(brains, ScriptBrains):
        try:
            load(brains.source, brains.path, REDUCE)
        except BriefError as e:
            raise BriefError(f"{e}; the brief has [reduce], so the script needs {REDUCE} in addition to PLAN") from None
