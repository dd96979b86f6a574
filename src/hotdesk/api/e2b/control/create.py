"""What a program asks for as an order: what cannot be meant, or is not offered here, is refused with its reason."""

from __future__ import annotations

from hotdesk.api.e2b import network
from hotdesk.api.e2b.control.requests import New
from hotdesk.api.e2b.responses import ErrorResponse
from hotdesk.api.e2b.sandboxes import Sandboxes, SandboxOrder
from hotdesk.brief.data import Scope

NOT_OFFERED = {
    "volume_mounts": "volumes are not offered here: keep files in a snapshot, or download them",
    "iam": "workload tokens are not offered here: give the sandbox what it needs as variables or network rules",
}


async def order_of(told: New, image: str, timeout: float, sandboxes: Sandboxes, *, secure: bool) -> SandboxOrder:
    """Read what is asked for."""
    for name, why in NOT_OFFERED.items():
        if getattr(told, name):
            raise ErrorResponse(501, why)
    if told.resumes and not told.auto_pause:
        raise ErrorResponse(400, "autoResume needs autoPause: only a paused sandbox can be woken")
    if not told.auto_pause_memory and not told.auto_pause:
        raise ErrorResponse(400, "autoPauseMemory false needs autoPause")
    if not told.auto_pause_memory and told.resumes:
        raise ErrorResponse(400, "autoPauseMemory false and autoResume exclude each other")
    private = (told.network or {}).get("allowPublicTraffic") is False
    if private and not secure:
        raise ErrorResponse(400, "allowPublicTraffic false needs a secure sandbox")
    if not secure and not sandboxes.serving.is_local:
        raise ErrorResponse(400, "a sandbox without a token is for servers on loopback only; make it secure")
    return SandboxOrder(
        told.template, image, timeout, await find_scope(sandboxes, told),
        metadata=told.metadata, env=told.env_vars, secure=secure, private=private or not sandboxes.serving.is_local,
        auto_pause=told.auto_pause, auto_pause_memory=told.auto_pause_memory, auto_resume=told.resumes,
        network=None if told.network is None else network.shown(told.network), internet=told.allow_internet_access,
    )  # fmt: skip


async def find_scope(sandboxes: Sandboxes, told: New) -> Scope:
    """Give what a sandbox reaches: where its program says nothing, what was worked out once."""
    if told.network is None and told.allow_internet_access is None:
        return sandboxes.defaults.scope
    return await network.find_scope(sandboxes.serving, told.network, told.allow_internet_access)


def seconds(told: int | None, default: int, longest: float) -> float:
    """Read how long a sandbox shall last."""
    timeout = default if told is None else told
    if timeout <= 0:
        raise ErrorResponse(400, "timeout takes seconds, more than none")
    if timeout > longest:
        raise ErrorResponse(400, f"a sandbox lasts {longest:.0f} seconds at most here")
    return float(timeout)
