"""The format of errors: a status, a stable code, and a message with what, why and remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from hotdesk.api.quotas import QuotaError
from hotdesk.errors import (
    BriefError,
    DeskError,
    DeskGone,
    FileError,
    HotdeskError,
    ImageError,
    LinkError,
    make_printable,
)

_MAX_MESSAGE_CHARS = 2000
"""Characters of a message."""
_MAX_FAULTS = 100
STATUS: dict[type[HotdeskError], int] = {
    BriefError: 400, ImageError: 400, DeskGone: 404, LinkError: 502, DeskError: 502,
}  # fmt: skip
_OF_FILES = {"missing": 404, "exists": 409, "denied": 403, "full": 507, "not-empty": 409}
METHODS = ("DELETE", "GET", "POST", "PUT")
WORDS = {404: "missing", 405: "method", 413: "too-large"}


class ProblemBody(BaseModel):
    """An error response."""

    code: str = Field(description="A stable error code for programs.", examples=["desk.gone"])
    message: str = Field(description="What failed, why, and what to do.")
    faults: list[str] | None = Field(
        None, description="All faults of an invalid brief, each with its line, what is wrong and how to correct it."
    )


class ProblemError(Exception):
    """An error that ends a request, as the client receives it."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: dict[str, str] | None = None,
        faults: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers, self.faults = status, code, headers, faults

    def make_response(self) -> JSONResponse:
        return _make_problem_response(self.status, self.code, str(self), self.headers, self.faults)


def _make_problem_response(
    status: int, code: str, message: str, headers: dict[str, str] | None = None, faults: Sequence[str] = ()
) -> JSONResponse:
    """Return an error as a response, without characters that could control a terminal."""
    body: dict[str, object] = {"code": code, "message": make_printable(message)[:_MAX_MESSAGE_CHARS]}
    if faults:
        body["faults"] = [make_printable(each)[:_MAX_MESSAGE_CHARS] for each in faults[:_MAX_FAULTS]]
    return JSONResponse(body, status, headers)


def problem_from_error(error: HotdeskError) -> ProblemError:
    if isinstance(error, FileError):
        return ProblemError(_OF_FILES.get(error.reason, 400), f"{error.code}.{error.reason}", str(error))
    if isinstance(error, QuotaError):
        return ProblemError(429, error.code, str(error), error.headers)
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 503)
    faults = error.faults if isinstance(error, BriefError) else ()
    return ProblemError(status, error.code, str(error), faults=faults)


def document_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    every = (400, 401, 403, 404, 422, 429, 503)
    return {
        status: {"description": _MEANINGS[status], "content": {"application/json": {"schema": _PROBLEM_SCHEMA}}}
        for status in (*every, *statuses)
    }


_PROBLEM_SCHEMA = {"$ref": f"#/components/schemas/{ProblemBody.__name__}"}
"""A reference: for a model, FastAPI would build a validator for each of six hundred responses."""


_MEANINGS = {
    400: "Invalid request.",
    401: "Missing or unknown key.",
    403: "The key lacks the required power.",
    404: "Not found.",
    409: "Conflict with the current state.",
    413: "Too large.",
    422: "The request does not match this schema.",
    429: "Too many requests, or a quota is reached.",
    502: "The desk failed.",
    503: "The server cannot do this now; the message has the reason.",
    507: "The disk is full.",
}


def install(app: FastAPI) -> None:
    app.add_exception_handler(ProblemError, _answer_problem)
    app.add_exception_handler(HotdeskError, _answer_ours)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(ClientDisconnect, _answer_disconnected)
    app.add_exception_handler(Exception, _answer_unknown)


async def _answer_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return error.make_response()


async def _answer_ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HotdeskError)
    return problem_from_error(error).make_response()


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    """Report what does not match the schema; never what was sent, which may be a secret."""
    assert isinstance(error, RequestValidationError)
    errors = error.errors()[:8]
    if any(each.get("loc", ())[:1] == ("path",) for each in errors) and request.method not in _list_methods(request):
        return await _answer_http(request, HTTPException(405, "Method Not Allowed"))  # of /jobs/models, not of a job
    remedy = "see /api/openapi.json"
    if ("body",) in (each.get("loc") for each in errors) and "json" not in request.headers.get("content-type", ""):
        remedy = "send JSON with `Content-Type: application/json`; " + remedy
    return _make_problem_response(422, "request.invalid", "; ".join([*map(describe_fault, errors), remedy]))


def describe_fault(error: dict[str, Any]) -> str:
    place: Sequence[object] = error.get("loc", ())
    return f"{'.'.join(str(part)[:60] for part in place) or 'the body'}: {error.get('msg', 'invalid')}"


async def _answer_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    word = WORDS.get(error.status_code, "refused")
    headers = {"Allow": ", ".join(_list_methods(request))} if error.status_code == 405 else dict(error.headers or {})
    return _make_problem_response(error.status_code, f"request.{word}", str(error.detail), headers)


def _list_methods(request: Request) -> list[str]:
    """List the methods of a resource: `/jobs/models` is not a job, although `/jobs/{job}` matches it, too."""
    described = (request.app.openapi_schema or {}).get("paths", {})  # none in a server's first second
    names = sorted((each for each in described if _covers(each, request.url.path)), key=lambda each: each.count("{"))
    if names:
        return [method for method in METHODS if method.lower() in described[names[0]]]
    scopes = [{**request.scope, "method": method} for method in METHODS]
    return [
        each["method"] for each in scopes if any(route.matches(each)[0] is Match.FULL for route in request.app.routes)
    ]


def _covers(template: str, path: str) -> bool:
    """Return whether a path of the API's description, such as `/jobs/{job}`, covers the path of a request."""
    pattern = re.sub(r"\\\{(\w+)\\\}", lambda found: ".+" if found[1] == "path" else "[^/]+", re.escape(template))
    return re.fullmatch(pattern, path) is not None


async def _answer_disconnected(request: Request, error: Exception) -> JSONResponse:
    """Return a response that no client receives."""
    return _make_problem_response(400, "request.left", "the client disconnected")


async def _answer_unknown(request: Request, error: Exception) -> JSONResponse:
    """Answer after an unexpected error, which is raised again and logged by the server (`api/http/`)."""
    return _make_problem_response(500, "internal", "internal error; the server's log has the reason")
