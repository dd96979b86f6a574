"""Request bodies of template builds, with bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hotdesk.api.e2b.control.requests import Body

_MAX_STEPS = 500
_Argument = Annotated[str, Field(max_length=128 << 10, pattern=r"^[^\x00]*$")]
_Command = Annotated[str, Field(max_length=64 << 10, pattern=r"^[^\x00]*$")]
_Reference = Annotated[str, Field(max_length=255)]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_StepKind = Literal["RUN", "COPY", "ENV", "WORKDIR", "USER"]


class BuildRequest(Body):
    """A requested build, before its files are sent."""

    name: Annotated[str, Field(min_length=1, max_length=255)] = ""
    alias: _Reference = ""
    """The name, as older programs send it."""
    tags: Annotated[list[_Reference], Field(max_length=64)] | None = None
    cpu_count: Annotated[int, Field(ge=1, le=1024)] | None = None
    memory_mb: Annotated[int, Field(ge=128, le=1 << 24)] | None = Field(None, alias="memoryMB")

    @property
    def reference(self) -> str:
        return self.name or self.alias


class BuildStep(Body):
    """One step of a build."""

    type: _StepKind
    args: Annotated[list[_Argument], Field(max_length=2048, default_factory=list)]
    force: bool | None = None
    files_hash: _Digest | None = None

    @model_validator(mode="after")
    def check_arguments(self) -> BuildStep:
        count = len(self.args)
        fewest = {"COPY": 2, "ENV": 2}.get(self.type, 1)
        if count < fewest:
            raise ValueError(f"{self.type} needs at least {'one argument' if fewest == 1 else f'{fewest} arguments'}")
        if self.type == "ENV" and count % 2:
            raise ValueError("ENV needs a value for every name: its arguments are pairs of name and value")
        if self.type == "COPY" and self.files_hash is None:
            raise ValueError("COPY needs filesHash")
        return self

    def get_argument(self, number: int) -> str:
        """Return an argument; empty if there is none."""
        return self.args[number] if number < len(self.args) else ""


class BuildOrder(Body):
    """The input of a template build."""

    from_image: _Reference | None = None
    from_template: _Reference | None = None
    from_image_registry: dict[str, object] | None = None
    force: bool | None = None
    steps: Annotated[list[BuildStep], Field(max_length=_MAX_STEPS, default_factory=list)]
    start_cmd: _Command | None = None
    ready_cmd: _Command | None = None

    @model_validator(mode="after")
    def check_base(self) -> BuildOrder:
        if bool(self.from_image) == bool(self.from_template):
            raise ValueError("a template needs exactly one of fromImage and fromTemplate")
        return self


class TagAssignment(Body):
    """Tags to add to a build."""

    target: _Reference
    tags: Annotated[list[_Reference], Field(min_length=1, max_length=64)]


class TagRemoval(Body):
    """Tags to remove from a template."""

    name: _Reference
    tags: Annotated[list[_Reference], Field(min_length=1, max_length=64)]
