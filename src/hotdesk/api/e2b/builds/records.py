"""A tenant's template builds: templates with their builds and tags, and layers that later builds reuse.

One JSON file below the tenant's state directory. A layer is recorded before its image is made, so that what a crash
left behind is found and removed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Literal

import anyio
from pydantic import TypeAdapter, ValidationError

from hotdesk.api.e2b.builds.names import DEFAULT_TAG, split_reference
from hotdesk.api.e2b.control.snapshots import PREFIX, get_folder, new_word
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.tenants import Tenant
from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError, make_printable
from hotdesk.linux import private_files

FILE = "templates.json"
MAX_TEMPLATES = 500
"""Templates one tenant may have."""
_MAX_BUILDS = 20
"""Builds of one template that are kept beside those with a tag."""
BuildState = Literal["waiting", "building", "ready", "error"]


@dataclass(frozen=True, slots=True)
class BuildContext:
    """User, folder and variables in which steps run; the final ones are the sandbox's defaults."""

    user: str = "user"
    workdir: str = ""
    """The working directory; empty for the user's home."""
    env: Mapping[str, str] = field(default_factory=dict)
    start: str = ""
    ready: str = ""


@dataclass(frozen=True, slots=True)
class BuildRecord:
    id: str
    created: float
    status: BuildState = "waiting"
    image: str = ""
    context: BuildContext = BuildContext()
    cpus: int = 0
    """Processors of its sandboxes; 0 for the default."""
    memory: int = 0
    """Bytes of memory of its sandboxes; 0 for the default."""
    tags: tuple[str, ...] = ()
    """Tags it gets once it is ready."""
    message: str = ""
    step: str = ""
    """The step that failed."""


@dataclass(frozen=True, slots=True)
class TagRecord:
    """The build that a tag refers to."""

    build: str
    created: float


@dataclass(frozen=True, slots=True)
class TemplateRecord:
    """A template: its builds, and the tags of some of them."""

    id: str
    name: str
    created: float
    builds: tuple[BuildRecord, ...] = ()
    tags: Mapping[str, TagRecord] = field(default_factory=dict)

    def build(self, number: str) -> BuildRecord | None:
        return next((each for each in self.builds if each.id == number), None)


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """A cached image that steps produced."""

    key: str
    """Hash of everything the image is made from."""
    image: str
    used: float
    size: int = 0
    """Bytes it takes in addition to the image below it."""
    done: bool = False
    proven: bool = False
    """Whether a desk was opened from it, and its start command became ready."""


@dataclass(frozen=True, slots=True)
class _Records:
    templates: tuple[TemplateRecord, ...] = ()
    layers: tuple[LayerRecord, ...] = ()


_ADAPTER = TypeAdapter(_Records)


class TenantTemplates:
    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.writing = anyio.Lock()
        found = _read(get_folder(tenant))
        self.templates = {each.id: _settle(each) for each in found.templates}
        self.layers = {each.key: each for each in found.layers if each.done}
        self.unfinished = {each.image: 0.0 for each in found.layers if not each.done}
        """Images that are being made or are not needed any more, with the time that began; they are removed later."""

    # -- templates ------------------------------------------------------------------------------------------------

    def find_named(self, name: str) -> TemplateRecord | None:
        return next((each for each in self.templates.values() if each.name == name), None)

    def find(self, reference: str) -> tuple[TemplateRecord, str | None]:
        """Return the template with an id or name, and the tag in the reference; 404 if there is none."""
        name, tag = split_reference(self.tenant.name, reference)
        found = self.templates.get(name) or self.find_named(name)
        if found is None:
            raise make_missing_template_error(reference)
        return found, tag

    def find_build(self, reference: str) -> BuildRecord | None:
        """Return the build that a template's name and tag refer to, if it is ready."""
        try:
            found, tag = self.find(reference)
        except E2bError:
            return None
        meant = found.tags.get(tag or DEFAULT_TAG)
        build = found.build(meant.build) if meant is not None else None
        return build if build is not None and build.status == "ready" else None

    def begin(self, name: str, build: BuildRecord) -> TemplateRecord:
        found = self.find_named(name)
        if found is None:
            if len(self.templates) >= MAX_TEMPLATES:
                raise E2bError(429, f"The limit of {MAX_TEMPLATES} templates is reached. Delete some.")
            found = TemplateRecord(new_word(), name, time.time())
        tagged = {each.build for each in found.tags.values()}
        others = [each for each in found.builds if each.id not in tagged and each.status != "building"]
        dropped = {each.id for each in others[: max(0, len(others) - _MAX_BUILDS + 1)]}
        builds = (*(each for each in found.builds if each.id not in dropped), build)
        self.templates[found.id] = found = replace(found, builds=builds)
        return found

    def change(self, template: str, build: BuildRecord) -> None:
        """Record the state of a build; one that is ready gets its tags."""
        found = self.templates.get(template)
        if found is None:
            return
        builds = tuple(build if each.id == build.id else each for each in found.builds)
        tags = dict(found.tags)
        if build.status == "ready":
            now = time.time()
            tags |= {tag: TagRecord(build.id, now) for tag in build.tags}
        self.templates[template] = replace(found, builds=builds, tags=tags)

    def assign(self, template: TemplateRecord, build: str, tags: list[str]) -> None:
        now = time.time()
        added = {tag: TagRecord(build, now) for tag in tags}
        self.templates[template.id] = replace(template, tags={**template.tags, **added})

    def unassign(self, template: TemplateRecord, tags: list[str]) -> None:
        rest = {tag: each for tag, each in template.tags.items() if tag not in tags}
        self.templates[template.id] = replace(template, tags=rest)

    def delete(self, template: TemplateRecord) -> None:
        """Delete a template's record; its images are removed when nothing needs them."""
        del self.templates[template.id]

    # -- layers ---------------------------------------------------------------------------------------------------

    def list_needed(self) -> set[str]:
        return {build.image for each in self.templates.values() for build in each.builds if build.image}

    def expect(self, key: str) -> LayerRecord:
        layer = LayerRecord(key, f"{PREFIX}{new_word()}", time.time())
        self.unfinished[layer.image] = time.time()
        return layer

    def add(self, layer: LayerRecord) -> None:
        """Record a layer whose image was made; the image of the layer it replaces is no longer needed."""
        old = self.layers.get(layer.key)
        self.layers[layer.key] = replace(layer, done=True)
        self.unfinished.pop(layer.image, None)
        if old is not None:
            self.unfinished[old.image] = time.time()

    def use(self, key: str, *, proven: bool = False) -> None:
        layer = self.layers[key]
        self.layers[key] = replace(layer, used=time.time(), proven=layer.proven or proven)

    async def write(self) -> None:
        with anyio.CancelScope(shield=True):
            async with self.writing:
                layers = [*self.layers.values(), *(LayerRecord("", each, 0.0) for each in sorted(self.unfinished))]
                records = {"templates": [asdict(each) for each in self.templates.values()],
                           "layers": [asdict(each) for each in layers]}  # fmt: skip
                data = json.dumps(records).encode()
                await anyio.to_thread.run_sync(_write, get_folder(self.tenant), data)


def new_build(tags: list[str], cpus: int | None, memory: int | None) -> BuildRecord:
    return BuildRecord(str(uuid.uuid4()), time.time(), cpus=cpus or 0, memory=memory or 0, tags=tuple(tags))


def make_missing_template_error(reference: str) -> E2bError:
    return E2bError(404, f"template '{make_printable(reference[:64])}' not found")


def _settle(template: TemplateRecord) -> TemplateRecord:
    """Mark builds as failed that an earlier server did not finish."""
    message = "The server was restarted while this template was built. Build it again."

    def settle_all() -> Iterator[BuildRecord]:
        for each in template.builds:
            ended = each.status in ("ready", "error")
            yield each if ended else replace(each, status="error", message=message)

    return replace(template, builds=tuple(settle_all()))


def _read(place: Path) -> _Records:
    if not place.is_dir():
        return _Records()
    try:
        data = private_files.read(place, FILE)
        return _ADAPTER.validate_json(data) if data else _Records()
    except ValidationError:
        raise HostError(
            f"{place / FILE} is damaged; restore it from a backup, or move it away to start without templates"
        ) from None


def _write(place: Path, data: bytes) -> None:
    private_files.make_folder(place)
    private_files.write(place, FILE, data)
