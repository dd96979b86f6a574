"""Tests of the answers to requests that the native API refuses."""

from __future__ import annotations

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from hotdesk.api.native import problems

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "methods"), [("/jobs/models", "GET"), ("/jobs/one", "DELETE, GET"), ("/jobs", "POST")]
)
async def test_a_refused_method_is_answered_with_those_of_the_resource_alone(path: str, methods: str) -> None:
    app, router = FastAPI(), APIRouter(prefix="/jobs")
    problems.install(app)
    router.get("/models")(lambda: "")
    router.get("/{job}")(lambda: "")
    router.delete("/{job}")(lambda: "")
    router.post("")(lambda: "")
    app.include_router(router)
    app.openapi()  # as a server does when it starts
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        answer = await client.options(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)
