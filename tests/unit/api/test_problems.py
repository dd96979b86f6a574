"""Tests of the answers to requests that the native API refuses."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from hotdesk.api.native import problems

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "methods"), [("/jobs/models", "GET"), ("/jobs/one", "DELETE, GET"), ("/jobs", "POST")]
)
async def test_a_refused_method_is_answered_with_those_of_the_resource_alone(path: str, methods: str) -> None:
    app = FastAPI()
    problems.install(app)
    app.get("/jobs/models")(lambda: "")
    app.get("/jobs/{job}")(lambda: "")
    app.delete("/jobs/{job}")(lambda: "")
    app.post("/jobs")(lambda: "")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        answer = await client.options(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)
