"""Briefs from the network: their restrictions, and the folder from which each is carried out."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hotdesk.api.native import uploads
from hotdesk.api.native.access.auth import RequestContext
from hotdesk.api.native.desks.egress_limits import require_public
from hotdesk.api.native.desks.images import require_template
from hotdesk.api.native.jobs.templates import Template
from hotdesk.api.native.problems import ProblemError
from hotdesk.brief.brief import Brief
from hotdesk.brief.ceiling import admit_brief
from hotdesk.brief.faults import make_brief_error
from hotdesk.brief.load import FILES, parse_job
from hotdesk.brief.reserved import OPERATOR_ONLY
from hotdesk.brief.routing import route_brief
from hotdesk.brief.value import Form
from hotdesk.checks import find
from hotdesk.checks.required import list_checks
from hotdesk.dataclass import dataclass
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.names import check_name

_EXCLUDED_FILES = ("brief.toml", "brief.json", "template.toml", "brain.py", "__pycache__")
"""Files of a template's folder that no job needs."""
BESIDE = ("inputs", "each")
"""Fields for operators that a client may use, because the job's folder holds only files that the client sent."""


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that comes with a brief."""

    upload: str
    name: str


def lay_out(
    context: RequestContext, folder: Path, text: str, form: Form, files: Sequence[SentFile], template: Template | None
) -> Brief:
    """Put a brief and its files into a folder of their own and parse it; refuse what a client may not request."""
    (folder / f"brief.{form}").write_text(text, encoding="utf-8")
    if template is not None:
        bring(template, folder)
    for each in files:
        name = check_name(each.name)
        if name.partition("/")[0] in FILES:
            raise ProblemError(400, "brief.file", f"the file name {name} is reserved for the brief; rename the file")
        if template is not None:
            require_expected_file(template, name)
        uploads.place(context, each.upload, folder / name)
    if template is None:
        refuse_reserved(text)
    try:
        job = parse_job(text.encode(), folder, scope_of, form)
    except ValueError as e:
        raise make_brief_error("the brief", e) from None
    if template is None:
        require_public(job.scope.rules)
    else:
        require_own_checks(template, job, files)
    for name in (job.image, *([job.reduce.image] if job.reduce is not None else [])):
        require_template(name)
    if job.wall == "local":
        raise ProblemError(
            400,
            "brief.reserved",
            'the wall "local" would run programs directly on this machine; choose container, gvisor or microvm',
        )
    return _route_job(context, job)


def _route_job(context: RequestContext, job: Brief) -> Brief:
    """Return a brief with its walls chosen; refuse one that this server's limits or walls do not permit."""
    walls, settings = context.native.tenants.walls, context.tenant.settings
    job = admit_brief(job, settings.limits, walls.catalog)
    job = replace(job, least_wall=walls.of(context.tenant.name))
    return route_brief(job, walls.catalog, settings.verify_wall)


def refuse_reserved(text: str) -> None:
    try:
        fields = tomllib.loads(text)
    except (ValueError, RecursionError):
        return  # the error is reported where the brief is parsed
    for key, reserved in OPERATOR_ONLY.items():
        if key not in BESIDE and key in fields and (reserved.always or reserved.when(fields[key])):
            why = f"this brief must not set {key}: {reserved.why}; {reserved.remedy}"
            raise ProblemError(400, "brief.reserved", why)


def require_expected_file(template: Template, name: str) -> None:
    """Refuse a file that a template does not ask for, or that would replace one of the template's."""
    expected = [each.name for each in template.shown.files]
    if (template.folder / name.partition("/")[0]).exists():
        raise ProblemError(
            400, "brief.file", f"{name} is a file of the template {template.shown.name} and cannot be replaced"
        )
    if name not in expected and not template.shown.uploads:
        remedy = f"send {', '.join(expected)}" if expected else "send no files"
        raise ProblemError(400, "brief.file", f"the template {template.shown.name} takes no file {name}; {remedy}")


def require_own_checks(template: Template, job: Brief, files: Sequence[SentFile]) -> None:
    """Refuse a file that a template's checks would use, unless the template lists it: the operator controls checks."""
    listed = {each.name for each in template.shown.files}
    report = job.reduce.deliverables if job.reduce is not None else ()
    checks = (check for item in (*job.deliverables, *report) for check in list_checks(item))
    needed = {name for check in checks for name in find(*check).beside}
    for name in sorted({each.name for each in files} - listed):
        if any(name == each or name.startswith(f"{each}/") for each in needed):
            raise ProblemError(
                400, "brief.file", f"{name} is part of a check; only this server's operator can supply it"
            )


def bring(template: Template, folder: Path) -> None:
    """Copy the files beside a template's brief; missing ones are for the requester to send."""
    ignore = shutil.ignore_patterns(*_EXCLUDED_FILES)
    shutil.copytree(template.folder, folder, ignore=ignore, dirs_exist_ok=True)
