"""The layers of a build: the steps of each, and the key under which its image is cached. No I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from hotdesk.api.e2b.builds.orders import BuildOrder, BuildStep
from hotdesk.api.e2b.builds.records import BuildContext
from hotdesk.dataclass import dataclass

_PRESENT_USERS = frozenset({"user", "root"})
"""Users that every image has."""
_PRESENT_FOLDERS = frozenset({"/", "/home", "/home/user", "/root", "/tmp", "/usr", "/var", "/etc", "/opt"})  # noqa: S108 - in an image
"""Folders that need not be created."""


@dataclass(frozen=True, slots=True)
class NumberedStep:
    """A step with its number and the context it runs in."""

    number: int
    """The number among all steps, from 1."""
    step: BuildStep
    context: BuildContext

    @property
    def acts(self) -> bool:
        match self.step.type:
            case "RUN" | "COPY":
                return True
            case "USER":
                return self.step.args[0] not in _PRESENT_USERS
            case "WORKDIR":
                return self.context.workdir.rstrip("/") not in _PRESENT_FOLDERS
        return False


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """Steps that make one layer; all but the last only prepare it."""

    steps: tuple[NumberedStep, ...]
    key: str
    forced: bool
    """Whether the layer is made again even if it is cached."""

    @property
    def acts(self) -> bool:
        """Return whether the layer may change files; if not, there is nothing to save."""
        return any(each.acts for each in self.steps)


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The steps of a build, arranged into layers."""

    layers: tuple[PlannedLayer, ...]
    context: BuildContext
    """The context after the last step."""
    final_key: str


def plan_build(order: BuildOrder, base_key: str, context: BuildContext) -> BuildPlan:
    """Arrange the steps of a build on its base; a RUN or COPY ends a layer."""
    key, forced = hash_key("from", base_key, *_list_context_words(context)), bool(order.force)
    layers: list[PlannedLayer] = []
    group: list[NumberedStep] = []
    for number, step in enumerate(order.steps, 1):
        context = _derive_context(context, step)
        key = hash_key(key, step.type, *step.args, step.files_hash or "", *_list_context_words(context))
        group.append(NumberedStep(number, step, context))
        forced = forced or bool(step.force)
        if step.type in ("RUN", "COPY"):
            layers.append(PlannedLayer(tuple(group), key, forced))
            group = []
    if group:
        layers.append(PlannedLayer(tuple(group), key, forced))
    if order.start_cmd or order.ready_cmd:
        context = replace(context, start=order.start_cmd or "", ready=order.ready_cmd or "")
    return BuildPlan(tuple(layers), context, hash_key(key, "finalize", *_list_context_words(context)))


def _derive_context(context: BuildContext, step: BuildStep) -> BuildContext:
    """Return the context that a step runs in and leaves for later steps."""
    match step.type:
        case "ENV":
            pairs = dict(zip(step.args[::2], step.args[1::2], strict=True))
            return replace(context, env={**context.env, **pairs})
        case "USER":
            return replace(context, user=step.args[0])
        case "WORKDIR":
            return replace(context, workdir=join_path(context.workdir or get_home(context.user), step.args[0]))
    return context


def join_path(folder: str, path: str) -> str:
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{folder}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def get_home(user: str) -> str:
    return "/root" if user == "root" else f"/home/{user}"


def _list_context_words(context: BuildContext) -> list[str]:
    env = json.dumps(sorted(context.env.items()))
    return [context.user, context.workdir, env, context.start, context.ready]


def hash_key(*words: str) -> str:
    """Return a digest of a list of texts; different lists have different digests."""
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def merge_tail(layers: Sequence[PlannedLayer], room: int) -> list[PlannedLayer]:
    """Return layers that fit into `room` image layers: if there are too many, the last ones are merged into one."""
    if len(layers) <= room:
        return list(layers)
    cut = max(0, room - 1)
    rest = layers[cut:]
    merged = replace(rest[-1], steps=tuple(step for layer in rest for step in layer.steps))
    return [*layers[:cut], merged]
