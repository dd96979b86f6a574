"""Liveness, readiness and metrics of the server."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from hotdesk.api.native.access.auth import ForAdmin, RequestContext, get_native
from hotdesk.api.native.metrics import format_labels, format_values
from hotdesk.api.native.problems import ProblemBody, ProblemError, document_errors
from hotdesk.api.native.schema import Model
from hotdesk.api.native.swarm_metrics import SwarmNumbers
from hotdesk.api.tenants import Tenants
from hotdesk.cluster.nodes import ClusterNode
from hotdesk.desk.image import image
from hotdesk.desk.keeper import state
from hotdesk.errors import HotdeskError
from hotdesk.job.record.decisions import JOBS
from hotdesk.job.record.lock import is_held
from hotdesk.walls import read_proof

router = APIRouter(tags=["server"])
TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Metrics in Prometheus text format.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


_LACKS = {
    "image": "the image `base` is missing or damaged; `hotdesk setup` builds it",
    "disk": "the disk is full or nearly full",
    "memory": "there is not enough free memory",
    "processes": "the machine runs too many processes",
    "keeper": "the keeper (the process that builds desks) of a tenant cannot start",
    "nodes": "no node accepts new desks",
    "pool": "the last attempt to open a desk for the pool (desks opened in advance) failed",
}


class Health(Model):
    """The server responds."""

    status: str


@router.get("/health", summary="Liveness")
async def health() -> Health:
    """Return whether the server responds."""
    return Health(status="ok")


@router.get("/ready", summary="Readiness: whether desks can be opened", responses={503: {"model": ProblemBody}})
async def ready(request: Request) -> Health:
    """Return whether desks can be opened: the image exists, the machine is not full, every tenant's keeper starts.

    No key is needed, so the response names only the kind of problem. The server's log and `hotdesk doctor` say more.
    """
    tenants = get_native(request).tenants
    for lacks in find_faults(tenants):
        raise ProblemError(503, f"ready.{lacks}", f"this server cannot open desks: {_LACKS[lacks]}")
    return Health(status="ready")


def find_faults(tenants: Tenants) -> Iterator[str]:
    if tenants.nodes is not None:
        if not any(each.is_heard and each.report.is_open for each in tenants.nodes.by_name.values()):
            yield "nodes"
        if "disk" in state.find_shortages(tenants.settings):  # journals, vault and drive are here; desks are not
            yield "disk"
        return
    try:
        image.find(tenants.settings.images, "base")
    except HotdeskError:
        yield "image"
    yield from state.find_shortages(tenants.settings)
    if tenants.failing:
        yield "keeper"
    if any(tenant.host.pool.failure is not None for tenant in tenants.open.values()):
        yield "pool"


@router.get("/metrics", summary="Numbers", response_class=PlainTextResponse, responses={**document_errors(), **TEXT})
async def metrics(context: ForAdmin) -> Response:
    """Return metrics for Prometheus: of every tenant for the operator's admin key, otherwise of the caller's tenant."""
    lines = [*context.native.measures.iterate_lines(), *await _format_numbers(context)]
    if context.is_operator and context.native.tenants.nodes is not None:
        nodes = Counter(_describe_node(each) for each in context.native.tenants.nodes.by_name.values())
        values = {format_labels(state=name): nodes[name] for name in ("open", "closed", "silent")}
        lines += format_values("hotdesk_nodes", "gauge", "Nodes, by whether they accept new desks.", values)
        exposed = sum(each.report.open_network for each in context.native.tenants.nodes.by_name.values())
        ends = min(context.native.tenants.nodes.list_expiries().values(), default=0.0)
        lines += format_values(
            "hotdesk_cluster_certificate_expires_seconds",
            "gauge",
            "When the first certificate of this server or its nodes ends, in seconds since 1970.",
            {"": ends},
        )
        about = "Nodes whose desks may reach other addresses than their door, which the operator accepts."
        lines += format_values("hotdesk_nodes_open_network", "gauge", about, {"": exposed})
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def _describe_node(node: ClusterNode) -> str:
    if not node.is_heard:
        return "silent"
    return "open" if node.report.is_open else "closed"


async def _format_numbers(context: RequestContext) -> list[str]:
    desks: dict[str, float] = {}
    walls: dict[str, float] = {}
    jobs: dict[str, float] = {}
    dollars: dict[str, float] = {}
    tokens: dict[str, float] = {}
    swarms = SwarmNumbers()
    for tenant in context.list_visible_tenants():
        name, settings = tenant.name, tenant.settings
        summaries = (await context.native.get_ledger(tenant).read_summaries()).values()
        found = await tenant.host.list_desks()
        for state_name, count in Counter(str(each["state"]) for each in found).items():
            desks[format_labels(tenant=name, state=state_name)] = count
        for proof, count in Counter(read_proof(each) for each in found if "proof" in each).items():
            facts = {"wall": proof.wall, "kernel": proof.kernel, "version": proof.version, "platform": proof.platform}
            walls[format_labels(tenant=name, **facts)] = count
        live = {summary.job for summary in summaries if is_held(settings.lib / JOBS / summary.job)}
        states = Counter(summary.get_state(summary.job in live, 0)[0] for summary in summaries)
        for job_state, count in states.items():
            jobs[format_labels(tenant=name, state=str(job_state))] = count
        dollars[format_labels(tenant=name)] = sum(summary.whole_cost.dollars for summary in summaries)
        tokens[format_labels(tenant=name)] = sum(summary.whole_cost.tokens for summary in summaries)
        swarms.count(name, {summary.job: summary.items for summary in summaries if summary.items is not None}, live)
    begun = {"": context.native.measures.begun}
    free = {"": shutil.disk_usage(context.native.tenants.settings.lib).free} if context.is_operator else {}
    return [
        *format_values("hotdesk_start_time_seconds", "gauge", "When the server started, in seconds since 1970.", begun),
        *format_values("hotdesk_disk_free_bytes", "gauge", "Free bytes of the disk with the server's state.", free),
        *format_values("hotdesk_desks", "gauge", "Open desks by tenant and state.", desks),
        *format_values("hotdesk_desks_by_wall", "gauge", "Open desks by tenant and wall (isolation).", walls),
        *format_values("hotdesk_jobs", "gauge", "Known jobs by tenant and state.", jobs),
        *format_values("hotdesk_spend_dollars_total", "counter", "Dollars spent on models by known jobs.", dollars),
        *format_values("hotdesk_tokens_total", "counter", "Tokens of models used by known jobs.", tokens),
        *swarms.iterate_lines(),
    ]
