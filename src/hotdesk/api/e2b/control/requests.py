"""Request bodies of the E2B control API: bounded models; malformed bodies are described and refused."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from starlette.requests import Request

from hotdesk.api.e2b.responses import E2bError

MAX_BODY_BYTES = 1 << 20
BodyT = TypeVar("BodyT", bound="Body")
Word = Annotated[str, Field(max_length=1024)]
Text = Annotated[str, Field(max_length=128 << 10)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Pairs = Annotated[dict[Word, Word], Field(max_length=256)]
Variables = Annotated[dict[Word, Text], Field(max_length=1024)]


def _require_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must contain printable characters only")
    return text


class Body(BaseModel):
    """A request body; unknown fields, which newer programs send, are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", alias_generator=to_camel)


class Resuming(Body):
    """Whether requests to a paused sandbox resume it."""

    enabled: bool = False


class VolumeMount(Body):
    """A volume to mount, by its name or id, and the path in the sandbox."""

    name: Name
    path: Name


class NewVolume(Body):
    """A volume to create."""

    name: Name
    source: Annotated[str, Field(max_length=200)] = ""
    """The volume whose files it starts with, by its name or id; E2B's programs send none."""


class NewShare(Body):
    """A share link to create."""

    port: Annotated[int, Field(ge=1, le=65535)]
    expires_in: Annotated[int, Field(ge=1, le=86400)] = 3600
    """Seconds for which the link is valid."""
    path: Annotated[str, Field(max_length=1024, pattern=r"^/[^?#\\]*$")] = "/"


class IamToken(Body):
    """A workload token for a sandbox."""

    audience: Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_require_printable)]
    token_type: Literal["JWT-SVID"]


TokenName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^{}]+$"), AfterValidator(_require_printable)]


class Iam(Body):
    """Workload tokens, by the names that network rules use for them."""

    tokens: Annotated[dict[TokenName, IamToken], Field(max_length=32)] = {}


class New(Body):
    """A sandbox to create."""

    template: Name = Field(alias="templateID")
    timeout: int | None = None
    auto_pause: bool = False
    auto_pause_memory: bool = True
    auto_resume: Resuming | None = None
    allow_internet_access: bool | None = Field(None, alias="allow_internet_access")
    network: dict[str, object] | None = None
    metadata: Pairs = {}
    env_vars: Variables = {}
    secure: bool = False
    mcp: dict[str, object] | None = None
    iam: Iam | None = None
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=64)] | None = None

    @property
    def audiences(self) -> dict[str, str]:
        return {name: token.audience for name, token in self.iam.tokens.items()} if self.iam is not None else {}

    @property
    def resumes(self) -> bool:
        return self.auto_resume is not None and self.auto_resume.enabled


class Connecting(Body):
    """How long a sandbox continues, and whether its memory is restored."""

    timeout: int | None = None
    memory: bool | None = None
    auto_pause: bool | None = None


class Timeout(Body):
    """When a sandbox ends, in seconds from now."""

    timeout: Annotated[int, Field(ge=0)]


class Refresh(Body):
    """The earliest end of a sandbox, in seconds from now."""

    duration: Annotated[int, Field(ge=0, le=3600)] = 15


class Pausing(Body):
    """What a pause keeps."""

    memory: bool | None = None
    require_healthy_guest: bool | None = None


class Networking(Body):
    """New network options of a sandbox; those that are missing are cleared."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")
    allow_internet_access: bool | None = Field(None, alias="allow_internet_access")

    @property
    def network_settings(self) -> dict[str, object]:
        return dict(self.model_extra or {})


class Forking(Body):
    """How many copies of a sandbox to make."""

    timeout: int | None = None
    count: Annotated[int, Field(ge=1, le=20)] | None = None


class Snapshotting(Body):
    """The name of a new snapshot."""

    name: Annotated[str, Field(max_length=128)] | None = None
    memory: bool | None = None


async def read(request: Request, kind: type[BodyT]) -> BodyT:
    """Read and validate a request's body; an empty one has no fields."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY_BYTES:
            raise E2bError(413, f"the request body has more than {MAX_BODY_BYTES >> 20} MiB, the limit")
    try:
        return kind.model_validate_json(bytes(data) or b"{}")
    except ValidationError as e:
        raise E2bError(400, describe_error(e)) from None


def describe_error(error: ValidationError) -> str:
    """Describe the first error of a body without quoting the body: it may have a secret."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part.isidentifier())
    return f"invalid body at {place[:100]!r}: {first['msg']}" if place else f"invalid body: {first['msg']}"
