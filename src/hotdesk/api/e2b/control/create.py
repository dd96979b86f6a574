"""Turns a request for a sandbox into an order; refuses contradictory or unsupported options with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from hotdesk.api.e2b import network
from hotdesk.api.e2b.builds.records import BuildRecord
from hotdesk.api.e2b.control.requests import New
from hotdesk.api.e2b.identity import build_tokens
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.sandboxes import Sandboxes, SandboxOrder
from hotdesk.api.e2b.templates import parse_wall
from hotdesk.api.e2b.volumes.registry import VolumeRecord
from hotdesk.brief.data import Scope


async def read_order(
    body: New,
    image: str,
    timeout: float,
    sandboxes: Sandboxes,
    *,
    secure: bool,
    tenant: str,
    volumes: Mapping[str, VolumeRecord] = MappingProxyType({}),
) -> SandboxOrder:
    if body.resumes and not body.auto_pause:
        raise E2bError(400, "autoResume needs autoPause true, because only a paused sandbox can be resumed")
    if not body.auto_pause_memory and not body.auto_pause:
        raise E2bError(400, "autoPauseMemory false needs autoPause true; set autoPause, or leave autoPauseMemory out")
    if not body.auto_pause_memory and body.resumes:
        raise E2bError(400, "autoPauseMemory false cannot be combined with autoResume; leave one of them out")
    private = (body.network or {}).get("allowPublicTraffic") is False
    if private and not secure:
        raise E2bError(400, "allowPublicTraffic false needs a sandbox created with secure true")
    if not secure and not sandboxes.serving.is_local:
        raise E2bError(
            400, "secure false is only allowed if the server listens on loopback; create the sandbox with secure true"
        )
    return SandboxOrder(
        body.template, image, timeout, await find_scope(sandboxes, body, tenant),
        metadata=body.metadata, env=body.env_vars, secure=secure, private=private or not sandboxes.serving.is_local,
        auto_pause=body.auto_pause, auto_pause_memory=body.auto_pause_memory, auto_resume=body.resumes,
        network=None if body.network is None else network.redact(body.network), internet=body.allow_internet_access,
        iam=body.audiences, wall=parse_wall(body.template, body.metadata),
        volumes={path: each.id for path, each in volumes.items()},
        mounts={path: each.name for path, each in volumes.items()},
    )  # fmt: skip


def apply_build(order: SandboxOrder, build: BuildRecord) -> SandboxOrder:
    context = build.context
    return replace(order, cpus=float(build.cpus), memory=build.memory, user=context.user, workdir=context.workdir)


async def find_scope(sandboxes: Sandboxes, body: New, tenant: str) -> Scope:
    """Return a sandbox's scope; without network options it is the default one, which was computed once."""
    if body.network is None and body.allow_internet_access is None:
        return sandboxes.defaults.scope
    serving = sandboxes.serving
    tokens = build_tokens(serving, tenant, body.audiences)
    return await network.find_scope(serving, body.network, body.allow_internet_access, tokens)


def choose_timeout(requested: int | None, default: int, longest: float) -> float:
    timeout = default if requested is None else requested
    if timeout <= 0:
        raise E2bError(400, "timeout must be a number of seconds greater than 0")
    if timeout > longest:
        raise E2bError(400, f"timeout is at most {longest:.0f} seconds on this server")
    return float(timeout)
