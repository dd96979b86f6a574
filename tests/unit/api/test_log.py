"""Tests of the server's log: a request that fails inside is one line, without what its error quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from hotdesk.api.e2b.responses import make_refusal
from hotdesk.api.http.dispatch import Front, ServerParts
from hotdesk.api.http.metrics_middleware import Measured
from hotdesk.api.keys import ApiKeys
from hotdesk.api.log import LOG
from hotdesk.api.native import problems
from hotdesk.api.native.access.browsers import Browsers
from hotdesk.api.native.metrics import Measures
from hotdesk.api.quotas import Quotas
from hotdesk.api.settings import Serving
from hotdesk.errors import HostError

SECRET = "hunter2-hunter2"
TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ hotdesk: (.+) method=POST path=(\S+)\n")
REQUEST = {"type": "http", "method": "POST", "path": "/sandboxes"}


async def fail(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError(f"no such value: {SECRET}")


@pytest.fixture
def app(tmp_path: Path) -> Measured:
    native = FastAPI()
    problems.install(native)

    @native.post("/api/v1/broken")
    async def broken() -> None:
        raise RuntimeError(f"no such value: {SECRET}")

    parts = ServerParts(fail, fail, fail, native, fail, fail)
    keys = ApiKeys(tmp_path)
    return Measured(Front(Serving(), parts, keys, Quotas(Serving().quota), Browsers(keys)), Measures())


@pytest.fixture
def as_json() -> Iterator[None]:
    LOG.as_json = True
    yield
    LOG.as_json = False


async def post(app: Measured, path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        return await client.post(path, json={"password": SECRET}, params={"token": SECRET})


@pytest.mark.parametrize("path", ["/api/v1/broken", "/sandboxes"])
async def test_a_request_that_fails_is_one_line_without_the_text_of_its_error(
    app: Measured, path: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    told = await post(app, path)
    assert told.status_code == 500
    assert SECRET not in told.text
    logged = capsys.readouterr().err
    found = TEXT.fullmatch(logged)
    assert found is not None, logged
    assert re.fullmatch(r"RuntimeError at \S+/test_log\.py:\d+", found[1]) is not None, logged
    assert found[2] == path
    assert caplog.records == []  # a library would log a traceback


@pytest.mark.parametrize(
    ("error", "shown"),
    [(RuntimeError(SECRET), "RuntimeError at ?"), (HostError("no\nroom"), f"{HostError.code}: no\\nroom")],
)
def test_an_error_that_a_program_of_e2b_meets_is_logged_in_the_same_way(
    error: Exception, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert SECRET not in str(make_refusal(error, REQUEST).body)
    logged = capsys.readouterr().err
    found = TEXT.fullmatch(logged)
    assert found is not None, logged
    assert (found[1], found[2]) == (shown, "/sandboxes")


@pytest.mark.usefixtures("as_json")
async def test_a_request_that_fails_is_one_line_of_json_on_request(
    app: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    await post(app, "/api/v1/broken")
    logged = capsys.readouterr().err
    told = json.loads(logged)
    assert told.keys() == {"time", "event", "message", "method", "path"}
    assert (told["event"], told["method"], told["path"]) == ("error", "POST", "/api/v1/broken")
    assert SECRET not in logged
