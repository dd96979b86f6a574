"""A brain that is a script, given on the command line. It runs on the host, as the user who runs the job.

from hotdesk.brain.models.scripted import Hands, step

async def count(hands: Hands):
    "Count the invoices."
    return await hands.run(["ls", "invoices"])

PLAN = (count,)            # or, with fields of the step: PLAN = (step(count, makes=["count.txt"]),)
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import ModuleType

from hotdesk.brain.models.script_hands import Failed, Hands
from hotdesk.brain.models.script_play import WINDOW, Player, ScriptFunction, get_headline
from hotdesk.brain.models.seam import ModelRequest, Reply
from hotdesk.brain.seam import PlanningTask
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, HotdeskError, ModelError, make_printable
from hotdesk.plan import Plan, Step

__all__ = ["Failed", "Hands", "Scene", "ScriptedModel", "step"]

EXAMPLE = "PLAN = (count,), where `count` is an `async def count(hands)` with a docstring"
FIELDS = tuple(each.name for each in fields(Step) if each.name != "name")
MAX_SCRIPT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Scene:
    """A function, and the step it carries out."""

    act: ScriptFunction
    step: Step


def step(act: ScriptFunction, **options: object) -> Scene:
    """Return a scene with the step's needs and results as fields of `Step`; lists are converted to tuples."""
    if unknown := sorted(set(options) - set(FIELDS)):
        raise BriefError(f"step() has no option {unknown[0]!r}; its options are {', '.join(FIELDS)}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return Scene(act, Step(act.__name__, **{"intent": get_headline(act), **values}))  # type: ignore[arg-type]


class ScriptedModel:
    """Plays a script. The file is read once: a job that is resumed continues with the same bytes."""

    native_screen = False
    sees = True
    """A script gets pictures as bytes."""

    def __init__(self, source: bytes, path: Path, scenes: dict[str, Scene] | None = None, item: str = "") -> None:
        self.source = source
        self.path = path
        self.scenes = load(source, path) if scenes is None else scenes
        self.player = Player(self.name, item)

    @classmethod
    def of(cls, *plan: ScriptFunction | Scene) -> ScriptedModel:
        return cls(b"", Path("functions"), _read_scenes(plan, Path("functions")))

    @classmethod
    def read(cls, path: Path) -> ScriptedModel:
        try:
            with path.open("rb") as file:
                source = file.read(MAX_SCRIPT_BYTES + 1)
        except OSError as e:
            raise _make_load_error(path, e) from e
        if len(source) > MAX_SCRIPT_BYTES:
            raise BriefError(f"the script {make_printable(str(path))} is larger than {MAX_SCRIPT_BYTES >> 20} MiB")
        return cls(source, path.absolute())

    @property
    def name(self) -> str:
        return f"written script {hashlib.sha256(self.source).hexdigest()[:12]}"

    @property
    def window(self) -> int:
        return WINDOW

    @property
    def computer(self) -> bool:
        return False

    def provide_plan(self, task: PlanningTask) -> Plan:
        return Plan(tuple(scene.step for scene in self.scenes.values()))

    async def ask(self, request: ModelRequest) -> Reply:
        if request.step not in self.scenes:
            has = ", ".join(self.scenes)
            shown = make_printable(str(self.path))
            raise ModelError(f"the script {shown} has no step {request.step!r}; its steps are {has}")
        return self.player.ask(request, self.scenes[request.step].act)

    async def close(self) -> None:
        self.player.close()


def load(source: bytes, path: Path, plan: str = "PLAN") -> dict[str, Scene]:
    """Run a script; return the scenes of one of its plans by name, in order."""
    module = ModuleType(f"hotdesk_script_{hashlib.sha256(source).hexdigest()[:12]}")
    module.__file__ = str(path)
    try:
        code = compile(source, str(path), "exec")
    except (SyntaxError, ValueError) as e:
        raise _make_load_error(path, e) from e
    sys.modules[module.__name__] = module  # a dataclass in it looks up its module there
    with _wrap_errors(path):
        exec(code, vars(module))  # noqa: S102 - the operator's own code, and no bytecode is left beside it
    return _read_scenes(getattr(module, plan, ()), path, plan)


def _read_scenes(plan: object, path: Path, name: str = "PLAN") -> dict[str, Scene]:
    parts = plan if isinstance(plan, tuple) else ()
    scenes = [part if isinstance(part, Scene) else step(part) for part in parts if _is_scene(part)]
    named = {scene.step.name: scene for scene in scenes}
    if not named or len(named) != len(parts):
        form = EXAMPLE.replace("PLAN", name, 1)
        raise BriefError(f"{make_printable(str(path))} has no valid {name}; write {form}, and list each step once")
    return named


def _is_scene(part: object) -> bool:
    return inspect.iscoroutinefunction(part.act if isinstance(part, Scene) else part)


def _make_load_error(path: Path, error: Exception) -> BriefError:
    shown = make_printable(str(path))
    return BriefError(
        f"the script {shown} cannot be loaded: {error}; a script is a Python file that ends with {EXAMPLE}"
    )


@contextmanager
def _wrap_errors(path: Path) -> Iterator[None]:
    """Report errors of the script; hotdesk's own errors pass unchanged."""
    try:
        yield
    except HotdeskError:
        raise
    except Exception as e:
        raise BriefError(f"the script {make_printable(str(path))} failed: {type(e).__name__}: {e}") from e
