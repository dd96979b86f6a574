"""The native API as one application: a router per resource, one error format, a description at `/api/openapi.json`."""

from __future__ import annotations

import json

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from starlette.types import Scope

from hotdesk import __version__
from hotdesk.api.native import content, drive, events, fleet, health, journal, memory, problems, uploads, vault
from hotdesk.api.native.access import keys, session
from hotdesk.api.native.context import Native
from hotdesk.api.native.desks import desks, files, screens, streams
from hotdesk.api.native.jobs import allow_rule, approvals, jobs, stories, swarms, templates
from hotdesk.api.native.metrics import PREFIX as PREFIX

SCHEMA = "/api/openapi.json"
NOUNS = (
    session, desks, files, screens, streams, templates, uploads, jobs, allow_rule, events, stories, swarms, approvals,
    drive, memory, vault, journal, keys, fleet, content,
)  # fmt: skip


def build_app(native: Native) -> FastAPI:
    app = FastAPI(
        title="hotdesk", version=__version__, openapi_url=None, docs_url=None,
        redoc_url=None, redirect_slashes=False,
        description="Desks, jobs, approvals, drive, vault and journal of one tenant.",
    )  # fmt: skip
    app.state.native = native
    problems.install(app)
    for noun in NOUNS:
        app.include_router(noun.router, prefix=PREFIX)
    app.include_router(health.router)
    app.add_route(SCHEMA, _send_schema, include_in_schema=False)
    return app


async def _send_schema(request: Request) -> Response:
    """Send the OpenAPI description; building it takes a third of a second, so a thread does it."""
    return Response(await anyio.to_thread.run_sync(write_schema, request.app), media_type="application/json")


def write_schema(app: FastAPI) -> bytes:
    if not hasattr(app.state, "schema"):
        app.state.schema = json.dumps(app.openapi()).encode()
    written: bytes = app.state.schema
    return written


def build_routes(app: FastAPI) -> None:
    """Build the routes now; FastAPI would build them in the first request, which would block the event loop."""
    nowhere: Scope = {"type": "http", "method": "GET", "path": f"{PREFIX}/-/-/-/-", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(nowhere)
