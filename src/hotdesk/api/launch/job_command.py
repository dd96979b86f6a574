"""A server's job as the launcher sees it: a folder of its own, and a command line built from a closed list.

orders/JOB/brief/       the brief and the files sent with it, written by the server
orders/JOB/out/         files that the job stored
orders/JOB/stdout       its output, one JSON object per line
orders/JOB/stderr
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hotdesk.api.models import explain_refusal
from hotdesk.config import APPROVALS, WALLS, Config
from hotdesk.errors import BriefError, make_printable

ORDERS = "orders"
_JOB_SHAPE = re.compile(r"i[a-z0-9]{20}")
NAME_SHAPE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_WHO_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
NUMBERS = {"seconds": 7 * 86400.0, "tokens": 1e12, "dollars": 1e6, "acts": 1e6}
"""Limits a job may be given, and the maximum of each."""
COUNTS = {"pilot": 1000, "review": 1000, "most": 512}
"""Counts of items a swarm may be given as well, and the maximum of each."""
QUARANTINE = {"retry": "--retry-failed", "accept": "--accept-failed"}
"""Command line options for the items in quarantine when a swarm is resumed."""
_MAX_MODELS = 8
KINDS = ("token", "basic", "totp")
"""Kinds of secrets a client may store: none that runs a program here or calls a token server."""
SNAPSHOT_SHAPE = re.compile(r"snapshot-[a-z0-9-]{1,54}")
"""Names of images that are snapshots; an operator's image cannot have such a name."""
_BEGINNING_S = 3600.0
SCRIPT = "brain.py"
"""The script of a template that needs no model."""
_OWN_OPTIONS = {
    "work": {"template", "models", "planners"},
    "swarm": {"template", "models", "planners", *COUNTS},
    "resume": {"models", "key", "quarantine", "add"},
}
"""Options that only one act accepts."""


def get_folder(settings: Config, job: str) -> Path:
    if not _JOB_SHAPE.fullmatch(job):
        raise BriefError(f"{job[:40]!r} is not a valid job id")
    return settings.lib / ORDERS / job


def remove_order(settings: Config, job: str) -> None:
    """Remove what a server stored of a job's request: its brief, uploads and output."""
    shutil.rmtree(get_folder(settings, job), ignore_errors=True)


def list_stray_orders(settings: Config, jobs: Path, before: float) -> list[str]:
    """List the jobs without a folder in `jobs` whose request is still stored and older than a time in ms.

    Those of the last hour are not listed: their jobs may be about to begin.
    """
    before = min(before, (time.time() - _BEGINNING_S) * 1000)
    with suppress(FileNotFoundError):
        return [
            folder.name
            for folder in (settings.lib / ORDERS).iterdir()
            if _JOB_SHAPE.fullmatch(folder.name)
            and not (jobs / folder.name).is_dir()
            and folder.stat().st_mtime * 1000 <= before
        ]
    return []


def build_command(
    act: str,
    folder: Path,
    job: str,
    options: Mapping[str, object],
    templates: tuple[Path, ...],
    listed: Sequence[str] = (),
) -> list[str]:
    """Return the command line of a job; every word in it is fixed, a number, or has a checked shape.

    `listed` has the models that the operator lists for jobs of this server.
    """
    allowed = {"requester", "approve", "wall", *NUMBERS} | _OWN_OPTIONS[act]
    if unknown := sorted(set(options) - allowed):
        raise BriefError(f"unknown job option {unknown[0][:40]!r}; the options are {', '.join(sorted(allowed))}")
    limits = [word for name in ("approve", "wall", *NUMBERS) for word in limit(name, options.get(name))]
    if act == "resume":
        known_scripts = [word for place in templates for word in ("--installed", str(place))]
        known_models = [word for name in listed for word in ("--listed", name)]
        more = [
            *_build_model_options("models", options.get("models", []), listed),
            *(["--key-stdin"] if options.get("key") else []),
        ]
        more += _choose_quarantine(options.get("quarantine"))
        more += ["--add-items"] if options.get("add") is True else []
        return ["resume", job, "--json", "--ordered", str(folder), *known_scripts, *known_models, *more, *limits]
    thinks = [
        word for name in ("models", "planners") for word in _build_model_options(name, options.get(name, []), listed)
    ]
    script = _build_script_args(options.get("template"), templates)
    places = ["--id", job, "--out", str(folder / "out")]
    counts = [word for name in COUNTS for word in count_items(name, options.get(name))]
    return [act, str(folder / "brief"), "--json", *places, *thinks, *script, *limits, *counts]


def build_errand_command(message: Mapping[str, object]) -> list[str]:
    """Return the command line of an errand: store or delete a secret, remove or import an image."""
    match message:
        case {"verb": "secret", "name": str(name), "kind": str(kind)} if NAME_SHAPE.fullmatch(name) and kind in KINDS:
            return ["vault", "set", name, "--kind", kind]
        case {"verb": "unsecret", "name": str(name)} if NAME_SHAPE.fullmatch(name):
            return ["vault", "rm", name]
        case {"verb": "unsave", "name": str(name)} if SNAPSHOT_SHAPE.fullmatch(name):
            return ["image", "rm", "--yes", name]
        case {"verb": "adopt", "name": str(name)} if SNAPSHOT_SHAPE.fullmatch(name):
            return ["image", "import", "/dev/stdin", "--name", name]
    raise BriefError(
        "the server's launcher process does not support the request "
        f"{make_printable(str(message.get('verb'))[:40])!r}, or the name in the request is invalid"
    )


def limit(name: str, value: object) -> list[str]:
    """Return the option for a limit; empty for `None`."""
    if value is None:
        return []
    if name == "approve" and isinstance(value, str) and value in APPROVALS:
        return ["--approve", value]
    if name == "wall" and isinstance(value, str) and value in WALLS[1:]:
        return ["--wall", value]
    if name not in NUMBERS:
        choices = APPROVALS if name == "approve" else WALLS[1:]
        raise BriefError(f"{name} must be one of {', '.join(choices)}")
    most = NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise BriefError(f"{name} must be a number greater than 0 and at most {most:.15g}")
    return [f"--{name}", str(value if name in ("seconds", "dollars") else int(value))]


def count_items(name: str, value: object) -> list[str]:
    """Return the option for a count of items; empty for `None`."""
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= COUNTS[name]:
        raise BriefError(f"{name} must be a whole number from 1 to {COUNTS[name]}")
    return [f"--{name}", str(value)]


def _choose_quarantine(value: object) -> list[str]:
    """Return the option for items in quarantine; with `None` they stay there."""
    if value is None:
        return []
    if not isinstance(value, str) or value not in QUARANTINE:
        raise BriefError('quarantine must be "retry" or "accept"')
    return [QUARANTINE[value]]


def _build_model_options(name: str, value: object, listed: Sequence[str] = ()) -> list[str]:
    if not isinstance(value, list) or len(value) > _MAX_MODELS:
        raise BriefError(f"{name} must be a list of at most {_MAX_MODELS} model names")
    for each in value:
        if not isinstance(each, str):
            raise BriefError(f"{name} must be full model names such as anthropic:MODEL")
        if why := explain_refusal(each, listed):
            raise BriefError(why)
    flag = "--model" if name == "models" else "--planner"
    return [word for each in value for word in (flag, each)]


def _build_script_args(template: object, templates: tuple[Path, ...]) -> list[str]:
    """Return the option for the script that acts; only one that an operator installed with a template is accepted."""
    if template is None:
        return []
    if not isinstance(template, str) or not NAME_SHAPE.fullmatch(template):
        raise BriefError("the template name is invalid; use up to 64 lower-case letters, digits and hyphens")
    for folder in templates:
        if (script := folder / template / SCRIPT).is_file():
            return ["--script", str(script)]
    if any((folder / template).is_dir() for folder in templates):
        raise BriefError(f"template {template!r} has no {SCRIPT}, so it cannot run without a model; name a model")
    raise BriefError(f"template {template!r} does not exist")


def read_requester(options: Mapping[str, object]) -> str:
    name = options.get("requester", "")
    if not isinstance(name, str) or (name and not _WHO_SHAPE.fullmatch(name)):
        raise BriefError("requester must be a valid key name")
    return name


@contextmanager
def outputs(folder: Path) -> Iterator[tuple[int, int]]:
    """Open the files for a job's output; refuse links and everything but regular files."""
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as e:
        raise BriefError(f"the folder of job {folder.name} cannot be opened: {e.strerror}") from e
    fds: list[int] = []
    try:
        for name in ("stdout", "stderr"):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fds.append(os.open(name, flags, 0o600, dir_fd=place))
            if not stat.S_ISREG(os.fstat(fds[-1]).st_mode):
                raise BriefError(f"the file {name} of job {folder.name} is not a regular file")
        yield fds[0], fds[1]
    finally:
        for fd in (place, *fds):
            os.close(fd)
