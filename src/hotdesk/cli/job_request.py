"""The common part of `work`, `resume` and `replay`: models or scripts, limits, where to run."""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from hotdesk.api.launch.job_command import SCRIPT
from hotdesk.api.models import explain_refusal
from hotdesk.brain.adversaries.names import find_adversary
from hotdesk.brain.brain import ModelBrain, describe_model
from hotdesk.brain.models import names
from hotdesk.brain.models.learned import LearnedLimits
from hotdesk.brain.models.prices import read_prices
from hotdesk.brain.models.record import RecordingHeader, RecordingModel, replay, write_header
from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.models.seam import LanguageModel
from hotdesk.brief.brief import Brief, Models
from hotdesk.brief.faults import make_brief_error
from hotdesk.brief.load import find_brief, parse_job, read_job
from hotdesk.checks import find
from hotdesk.checks.required import list_checks
from hotdesk.cli import prestart, unlock
from hotdesk.cli.desks.run import show
from hotdesk.config import Config, find_node_identity
from hotdesk.dataclass import dataclass
from hotdesk.desk.image import image, sterilize
from hotdesk.desk.wall.registry import survey
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.journal import FILE as JOURNAL
from hotdesk.drive.keep import Drive
from hotdesk.errors import BriefError, make_printable
from hotdesk.host import Host, control_path
from hotdesk.job.machine import Machine
from hotdesk.job.record import papers
from hotdesk.job.record.replay import load_replay, make_harmless
from hotdesk.job.verify import OFFICE
from hotdesk.linux.landlock import confine
from hotdesk.strict import read
from hotdesk.walls import NAMES, NOMINAL_CATALOG, UNWALLED, WallCatalog

APPROVE = (
    "what a person approves: nothing (auto), the plan (plan), the plan if it does more than read or uses secrets "
    "(risky), the plan and each step (every)"
)
MODELS = "models"
"""Folder of the limits learned from models' errors."""
PAUSED = 75
"""Exit code of a job that stopped and can be resumed."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A brief with its options, stored with the job so that another process can resume it."""

    brief: str
    """The brief's text."""
    folder: str
    form: str
    """`toml` or `json`."""
    plan: tuple[str, ...] = ()
    """Models that plan, in order of preference."""
    act: tuple[str, ...] = ()
    script: str = ""
    """Path of the script that acts, or `""`."""
    source: str = ""
    """The script's content in base64."""
    adversary: str = ""
    replay: str = ""
    """Id of the job whose decisions are repeated, or `""`."""
    recording: str = ""
    """Path of the recording whose replies are repeated, or `""`."""
    out: str = ""
    limits: dict[str, Any] = field(default_factory=dict)
    """Options that override the brief: approve, seconds, tokens, dollars, acts, and the weakest wall."""

    def as_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def is_recorded(self) -> bool:
        return bool(self.source or self.adversary or self.replay or self.recording)

    @property
    def has_items(self) -> bool:
        return self.build_job().each is not None

    def build_job(self) -> Brief:
        try:
            job = parse_job(self.brief.encode(), Path(self.folder), scope_of, self.form)  # type: ignore[arg-type]
        except ValueError as e:
            raise make_brief_error("the brief", e) from None
        limits = {name: value for name, value in self.limits.items() if value is not None}
        budget = replace(job.budget, **{name: limits[name] for name in ("tokens", "dollars", "acts") if name in limits})
        changed: dict[str, Any] = {name: limits[name] for name in ("approve", "seconds") if name in limits}
        if wall := limits.pop("wall", ""):
            changed |= {"least_wall": wall, "wall": wall if job.wall == UNWALLED else job.wall}
        models = Models(self.plan or job.models.plan, self.act or job.models.act)
        job = replace(job, budget=budget, models=models, explicit=job.explicit | {*limits, "models"}, **changed)
        return make_harmless(job) if self.replay else job


def read_chosen(data: bytes) -> JobRequest:
    return read(JobRequest, json.loads(data))


def require_ordered(request: JobRequest, folder: Path, installed: Sequence[Path], listed: Sequence[str] = ()) -> None:
    """Refuse a request that a server could not have made; a server can write the stored data of its jobs.

    The request must not choose programs of this machine (except an installed template's script), the folder of results,
    or models other than those in `listed`, which the operator allows. A template's brief may name other models.
    """
    scripts = {"", *(str(path) for each in installed for path in each.absolute().glob(f"*/{SCRIPT}"))}
    source = Path(request.script).read_bytes() if request.script in scripts - {""} else b""
    places = (str(folder.absolute() / "brief"), str(folder.absolute() / "out"))
    right = request.script in scripts and request.source == base64.b64encode(source).decode()
    fixed = request.adversary or request.replay or request.recording
    if not right or fixed or (request.folder, request.out) != places:
        raise BriefError(
            f"the stored request of job {folder.name} was changed after the server wrote it, so the job cannot be "
            "resumed; start a new job"
        )
    job, templates = request.build_job(), _list_template_models(installed)
    own = {*job.models.plan, *job.models.act, *filter(None, [job.look])} - templates
    for name in (*request.plan, *request.act, *sorted(own)):
        if why := explain_refusal(name, listed):
            raise BriefError(f"job {folder.name} cannot continue with its model: {why}")


def _list_template_models(installed: Sequence[Path]) -> set[str]:
    """Return the models that the briefs of installed templates name."""
    found: set[str] = set()
    for file in (path for each in installed for path in each.absolute().glob("*/brief.toml")):
        with suppress(OSError, ValueError):
            brief = tomllib.loads(file.read_text())
            models = brief.get("models", {})
            named = [brief.get("look"), *(models.values() if isinstance(models, dict) else ())]
            flat = [name for each in named for name in (each if isinstance(each, list) else [each])]
            found |= {name for name in flat if isinstance(name, str)}
    return found


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the options for limits that override the brief's."""
    parser.add_argument("--approve", choices=("auto", "plan", "risky", "every"), help=APPROVE)
    parser.add_argument("--seconds", type=float, metavar="N", help="time limit of the job in seconds")
    parser.add_argument("--tokens", type=int, metavar="N", help="maximum number of tokens that models read and write")
    parser.add_argument(
        "--dollars",
        type=float,
        metavar="X",
        help="maximum cost of models in dollars; models without a known price are not counted",
    )
    parser.add_argument("--acts", type=int, metavar="N", help="maximum number of tool calls")
    parser.add_argument(
        "--wall", choices=NAMES[1:], help="the weakest isolation to accept; the brief may require a stronger one"
    )


def get_limits(arguments: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in ("approve", "seconds", "tokens", "dollars", "acts", "wall")}


def choose(arguments: argparse.Namespace) -> JobRequest:
    """Build the request of a command line; the script is read here, once."""
    read_job(arguments.brief, scope_of, find)  # it names the file in its errors
    file = find_brief(arguments.brief)
    text = file.read_text()
    script = arguments.script
    try:
        source = base64.b64encode(script.read_bytes()).decode() if script else ""
    except OSError as e:
        raise BriefError(f"the script {make_printable(str(script))} cannot be read: {e.strerror}") from e
    if arguments.replay:
        replay(arguments.replay)  # it reports faults of the file before anything is opened
    return JobRequest(
        brief=text,
        folder=str(file.absolute().parent),
        form="json" if file.suffix == ".json" else "toml",
        plan=tuple(arguments.planner or arguments.model or ()),
        act=tuple(arguments.model or ()),
        script=str(script.absolute()) if script else "",
        source=source,
        adversary=arguments.adversary or "",
        recording=str(arguments.replay.absolute()) if arguments.replay else "",
        out=str(arguments.out.absolute()) if arguments.out else "",
        limits=get_limits(arguments),
    )


def make_brain(
    chosen: JobRequest,
    job: Brief,
    settings: Config,
    record: Path | None = None,
    key: str = "",
    answered_by: str = "",
    notify: Callable[[str], None] | None = None,
) -> ModelBrain:
    """Return the brain. `key` is for the first model, and others at its address; `notify` reports waits.

    `answered_by` is for the header of the recording `record`. A script runs in this process: call this after dropping
    privileges.
    """
    if chosen.replay:
        folder = papers.find(settings.lib / "jobs", chosen.replay)
        again = load_replay(settings.lib / "keys" / JOURNAL, chosen.replay, folder)
        return ModelBrain(job, [again], [again])
    if chosen.recording:
        repeated = replay(Path(chosen.recording))
        return ModelBrain(job, [repeated], [repeated])
    script = ScriptedModel(base64.b64decode(chosen.source), Path(chosen.script)) if chosen.source else None
    if chosen.adversary and job.wall == "local":
        raise BriefError(
            "--adversary needs isolation, which the wall `local` does not have: the attack would run on this "
            "machine itself; write wall = 'container' in the brief"
        )
    turned = find_adversary(chosen.adversary, script) if chosen.adversary else None
    if (recorded := turned or script) is not None:
        return ModelBrain(job, [recorded], [recorded])
    if not job.models.plan:
        raise BriefError(
            'No model is configured. Set `[models] plan = "anthropic:MODEL"` in the brief, pass --model, '
            "or pass --script FILE to use a script instead of a model."
        )
    models: dict[str, LanguageModel] = {}
    learned = LearnedLimits(settings.lib / MODELS)
    prices = read_prices(settings.prices)
    for name in (*job.models.plan, *job.models.act):
        theirs = {"key": key} if key and names.is_same_place(name, job.models.plan[0]) else {}
        found = names.find(name, prices=prices, settings=settings.models, learned=learned, notify=notify, **theirs)
        models[name] = RecordingModel(found, record) if record is not None else found
    if record is not None:
        write_header(record, RecordingHeader(tuple(map(describe_model, models.values())), answered_by))
    planners = [models[name] for name in job.models.plan]
    return ModelBrain(job, planners, [models[name] for name in job.models.act] or planners)


@asynccontextmanager
async def machine_for(settings: Config, job: Brief, writable: Sequence[Path], dials: bool) -> AsyncIterator[Machine]:
    """Yield the machine for a brief's wall; this process keeps only the permission to write results."""
    if job.wall == "local":
        from hotdesk.job.local import local_machine  # its certificates would cost every other job 40 ms

        async with local_machine(settings) as local:
            yield local
        return
    if find_node_identity(settings) is not None:
        from hotdesk.cluster.host import open_cluster_machine  # its certificates would cost every other job 40 ms

        async with open_cluster_machine(settings, lambda error: say(f"hotdesk: {error}")) as remote:
            folders = [*writable, settings.run / "control"]
            confine(folders, any_owner=True, dials=dials, ports=remote.list_ports())
            await remote.find_nodes()
            remote.doors.on_question = show
            yield remote
        return
    key = unlock.find(settings, job.scope)
    if os.geteuid() == 0:
        office = any(each.name == OFFICE for each in image.ls(settings.images))
        for name in {find(*each).image for item in job.deliverables for each in list_checks(item, office=office)}:
            sterilize.make(settings.images, image.find(settings.images, name), say)
    async with Host(settings, keeper=prestart.take_keeper()) as host:
        confine([*writable, control_path(settings, 0).parent], any_owner=True, dials=dials)
        host.doors.on_question = show
        if key:
            await host.doors.unlock(key)
        yield host


def survey_walls(settings: Config) -> WallCatalog:
    """Return the walls of this machine, or all walls if desks are on nodes, which check them on opening."""
    return NOMINAL_CATALOG if find_node_identity(settings) is not None else survey(settings)


def make_result_folders(settings: Config, *more: Path) -> list[Path]:
    """Create the folders of results while this process still has the permission."""
    Drive(settings.lib / "drive")
    folders = [settings.lib / "drive", settings.lib / "jobs", settings.lib / MODELS, *more]
    for folder in folders:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folders


def say(*lines: str) -> None:
    for line in lines:
        print(make_printable(line), file=sys.stderr, flush=True)
