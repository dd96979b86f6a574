"""Whether the server lives, whether it can do anything, and its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from hotdesk.api.native.asking import ForAdmin, native_of
from hotdesk.api.native.measures import gauge, labels
from hotdesk.api.native.native import Native
from hotdesk.api.native.problems import Problem, ProblemBody, documented
from hotdesk.api.native.shapes import Model
from hotdesk.api.tenants import Tenants
from hotdesk.desk import image, state
from hotdesk.errors import HotdeskError
from hotdesk.job.cases import JOBS
from hotdesk.job.held import is_held

router = APIRouter(tags=["server"])
TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus' text.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


LACKS = {
    "image": "the image `base` is not there, or damaged",
    "disk": "the disk is full, or nearly",
    "memory": "there is too little memory",
    "processes": "there are too many processes",
    "keeper": "the keeper of a tenant cannot start",
    "pool": "the last that was to be kept ready could not be",
}


class Health(Model):
    """That there is somebody."""

    status: str


@router.get("/health", summary="Whether it lives")
async def health() -> Health:
    """Say that the server lives."""
    return Health(status="ok")


@router.get("/ready", summary="Whether it can open desks", responses={503: {"model": ProblemBody}})
async def ready(request: Request) -> Health:
    """Say whether desks can be opened: the image is there, the machine is not full, every tenant's keeper starts.

    Anybody may ask: what is wrong is told by its kind alone. The server's log and `hotdesk doctor` tell more.
    """
    tenants = native_of(request).tenants
    for lacks in wrong(tenants):
        raise Problem(503, f"ready.{lacks}", f"no desk can be opened here: {LACKS[lacks]}")
    return Health(status="ready")


def wrong(tenants: Tenants) -> Iterator[str]:
    """Name what keeps desks from being opened."""
    try:
        image.find(tenants.settings.images, "base")
    except HotdeskError:
        yield "image"
    yield from state.short_of(tenants.settings)
    if tenants.failing:
        yield "keeper"
    if any(tenant.host.pool.failure is not None for tenant in tenants.open.values()):
        yield "pool"


@router.get("/metrics", summary="Numbers", response_class=PlainTextResponse, responses={**documented(), **TEXT})
async def metrics(asked: ForAdmin) -> Response:
    """Give the server's numbers as Prometheus reads them; of tenants, only the caller's own."""
    lines = [line async for line in told(asked.native, asked.tenant.name)]
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


async def told(native: Native, name: str) -> AsyncIterator[str]:
    """Write what is so."""
    for line in native.measures.lines():
        yield line
    for line in gauge("hotdesk_started_seconds", {"": native.measures.begun}):
        yield line
    tenant = native.tenants.open[name]
    tales = (await native.ledger(tenant).known()).values()
    desks = Counter(str(each["state"]) for each in state.desks(tenant.settings))
    jobs = Counter(tale.state(is_held(tenant.settings.lib / JOBS / tale.job), 0)[0] for tale in tales)
    costs = [tale.cost for tale in tales]
    numbers = {
        "hotdesk_desks": {labels(tenant=name, state=key): float(count) for key, count in desks.items()},
        "hotdesk_jobs": {labels(tenant=name, state=str(key)): float(count) for key, count in jobs.items()},
        "hotdesk_spend_dollars": {labels(tenant=name): sum(each.dollars for each in costs)},
        "hotdesk_tokens": {labels(tenant=name): float(sum(each.tokens for each in costs))},
    }
    for key, values in numbers.items():
        for line in gauge(key, values):
            yield line
