"""Installed briefs for people who fill in a form: folders with a `template.toml` beside the brief.

title = "Audit invoices against the ERP"
text = "Reads every invoice, looks each order up, and lists what differs."
files = ["invoices.zip"]

[[values]]
name = "month"
title = "Which month?"
default = "June"

The value replaces `{month}` in the brief's texts; `template_values.py` checks where it may stand. A `brain.py` beside
the brief acts if no model is named.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import AfterValidator, Field, ValidationError

from hotdesk.api.launch.job_command import NAME_SHAPE, SCRIPT
from hotdesk.api.native.access.auth import ForJobs
from hotdesk.api.native.jobs.template_values import Parameters, fill_brief
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import After, Limit, Model, Page, paginate
from hotdesk.config import Config
from hotdesk.dataclass import dataclass

router = APIRouter(prefix="/templates", tags=["jobs"], responses=document_errors())
FILE = "template.toml"
Filled = Annotated[str, Field(max_length=10_000)] | bool | int | float
_Prose = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]
"""One paragraph; line breaks of the file become spaces."""


class Value(Model):
    """A value of a template."""

    name: Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,31}$")]
    title: str = ""
    text: _Prose = ""
    kind: Literal["text", "long", "number", "boolean"] = "text"
    choices: list[str] | None = None
    default: Filled | None = None


class Wanted(Model):
    """A file that a template requires."""

    name: str
    text: _Prose = ""


class TemplateShown(Model):
    """A template of a brief."""

    name: str
    title: str
    text: _Prose
    values: list[Value]
    files: list[Wanted]
    uploads: bool = Field(description="Whether a request may include files other than those in `files`.")
    scripted: bool = Field(description="Whether the template runs without a model.")


@dataclass(frozen=True, slots=True)
class Template:
    folder: Path
    shown: TemplateShown


@router.get("", summary="Templates")
async def list_templates(context: ForJobs, limit: Limit = 100, after: After = "") -> Page[TemplateShown]:
    """List the templates that the operator installed, and those that come with hotdesk."""
    found = [each.shown for each in find_installed(context.native.templates)]
    some, more = paginate(found, lambda each: each.name, limit, after)
    return Page(items=some, next=more)


def list_places(settings: Config, more: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the folders with templates: the installed ones, those of the settings, and our own examples."""
    examples = Path(__file__).absolute().parents[5] / "examples"
    return (settings.lib / "templates", *more, *([examples] if examples.is_dir() else []))


def find_installed(folders: tuple[Path, ...]) -> list[Template]:
    """Find the installed templates; if two have the same name, the first folder's is used."""
    found: dict[str, Template] = {}
    for folder in folders:
        for template in read_templates(folder):
            found.setdefault(template.shown.name, template)
    return sorted(found.values(), key=lambda each: each.shown.name)


def read_templates(folder: Path) -> Iterator[Template]:
    """Read the templates of a folder; unreadable ones are skipped."""
    for file in sorted(folder.glob(f"*/{FILE}")):
        name = file.parent.name
        if NAME_SHAPE.fullmatch(name) and (file.parent / "brief.toml").is_file():
            try:
                fields = tomllib.loads(file.read_text())
                files = [{"name": each} if isinstance(each, str) else each for each in fields.pop("files", [])]
                script = (file.parent / SCRIPT).is_file()
                own = {"title": name, "text": "", "values": [], "uploads": False, **fields}
                shown = TemplateShown.model_validate({**own, "name": name, "files": files, "scripted": script})
            except (OSError, ValueError, ValidationError, TypeError):
                continue
            yield Template(file.parent, shown)


def find(folders: tuple[Path, ...], name: str) -> Template:
    for each in find_installed(folders):
        if each.shown.name == name:
            return each
    raise ProblemError(404, "template.missing", f"template {name!r} not found; GET /templates lists the templates")


def fill_template(template: Template, values: Mapping[str, Filled]) -> str:
    """Return the brief as JSON, with values filled into its texts."""
    definitions = {each.name: each for each in template.shown.values}
    if unknown := sorted(set(values) - set(definitions)):
        raise ProblemError(
            400,
            "template.value",
            f"template {template.shown.name} has no value named {unknown[0]!r}; its values are "
            f"{', '.join(definitions) or 'none'}",
        )
    resolved = {name: values.get(name, each.default) for name, each in definitions.items()}
    for name, value in resolved.items():
        if value is None:
            raise ProblemError(
                400,
                "template.value",
                f"the template {template.shown.name} needs a value for {name!r}; add it to `values`",
            )
        if (choices := definitions[name].choices) is not None and value not in choices:
            raise ProblemError(400, "template.value", f"the value of {name!r} must be one of {', '.join(choices)}")
    free = {name for name, each in definitions.items() if each.choices is None and resolved[name] != each.default}
    parameters = Parameters({name: str(value) for name, value in resolved.items()}, frozenset(free))
    brief = tomllib.loads((template.folder / "brief.toml").read_text())
    return json.dumps(fill_brief(brief, parameters))
