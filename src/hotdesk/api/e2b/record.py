"""Fields of every sandbox record: the program's request, and nothing derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from hotdesk.api.e2b.egress_proxy import describe_proxy
from hotdesk.api.e2b.sandboxes import Sandbox
from hotdesk.api.e2b.transforms import list_headers
from hotdesk.api.launch.job_command import SNAPSHOT_SHAPE
from hotdesk.config import Config
from hotdesk.desk.image.image import get_record_path
from hotdesk.desk.records import may_be_resumed
from hotdesk.desk.seam import ID_SHAPE

COMMON = (
    "id", "template", "token", "traffic_token", "started", "ends", "metadata", "env", "timeout", "auto_pause",
    "auto_pause_memory", "auto_resume", "network", "internet", "user", "workdir", "iam",
)  # fmt: skip
"""Fields that a record copies from its sandbox."""


class SandboxRecord(BaseModel):
    """The part of a sandbox that outlives its server, whether its desk or its files remain."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    id: Annotated[str, Field(pattern=f"^{ID_SHAPE.pattern}$")]
    template: str
    token: str
    traffic_token: str | None
    started: float
    ends: float
    metadata: dict[str, str]
    env: dict[str, str]
    timeout: float
    auto_pause: bool
    auto_pause_memory: bool
    auto_resume: bool
    network: dict[str, object] | None
    internet: bool | None
    user: str = ""
    workdir: str = ""
    headers: list[tuple[str, str, str]]
    """Headers that its network rules attach, which are secrets: host, name, value."""
    egress_proxy: dict[str, object] | None = None
    """Its egress proxy, with the password."""
    iam: dict[str, str] = {}
    revoked: list[str] = []
    """Ids of share links to its ports that were revoked."""


class SavedSandbox(SandboxRecord):
    """All properties of a sandbox except its files."""

    image: Annotated[str, Field(pattern=f"^{SNAPSHOT_SHAPE.pattern}$")]
    until: float
    mounts: dict[str, str] = Field(default_factory=dict)
    volumes: dict[str, str] = Field(default_factory=dict)
    """Ids of its volumes, by path."""
    desk: Annotated[str, Field(pattern=f"^({ID_SHAPE.pattern})?$")] = ""
    """The id of the hibernated desk with its programs; empty: its files are in `image`."""
    base: str = ""
    """The image of that desk."""

    def is_desk_gone(self, settings: Config) -> bool:
        """Return whether the hibernated desk continued or was burnt since, and removing this record failed.

        The keeper's own record decides: the list of hibernated desks is empty after a restart of the machine or its
        container, until their keeper starts.
        """
        return bool(self.desk) and not may_be_resumed(settings.lib, self.desk)

    def is_image_gone(self, settings: Config) -> bool:
        """Return whether the sandbox's files were removed since, as after its end, and removing this record failed."""
        return not self.desk and not get_record_path(settings.images, self.image).exists()


def describe(sandbox: Sandbox, *more: str) -> dict[str, Any]:
    """Return the values of a sandbox's record: those that every record has, and more fields by name."""
    found = {name: getattr(sandbox, name) for name in (*COMMON, *more)}
    found = {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}
    headers, proxy = list_headers(sandbox.scope), describe_proxy(sandbox.scope)
    return {**found, "headers": headers, "egress_proxy": proxy, "revoked": sorted(sandbox.revoked)}
