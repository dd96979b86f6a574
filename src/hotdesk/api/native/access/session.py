"""Sign-in and sign-out of browsers with an API key."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from hotdesk.api.caller import Caller
from hotdesk.api.log import LOG
from hotdesk.api.native.access.auth import Anybody, get_native
from hotdesk.api.native.access.browsers import COOKIE
from hotdesk.api.native.problems import document_errors
from hotdesk.api.native.schema import Model

router = APIRouter(prefix="/session", tags=["session"], responses=document_errors())


class SignIn(Model):
    """The key to sign in with."""

    key: Annotated[str, Field(max_length=200)]


class Who(Model):
    """The caller."""

    tenant: str
    name: str
    powers: list[str]
    csrf: str = Field(
        description="A browser must send this token as X-CSRF-Token with every request that changes something. "
        "Empty for programs, which send a key instead of a cookie."
    )


@router.post("", summary="Sign a browser in")
async def begin(sign_in: SignIn, request: Request, response: Response) -> Who:
    if "origin" in request.headers:  # other pages cannot sign in here
        get_native(request).sessions.check_origin(request)
    address = request.client.host if request.client is not None else ""
    caller, cookie, csrf = get_native(request).sessions.begin(sign_in.key, address)
    response.set_cookie(COOKIE, cookie, secure=True, httponly=True, samesite="strict", path="/")
    response.headers["cache-control"] = "no-store"
    LOG.write("sign-in", name=caller.name, key=caller.key, tenant=caller.tenant, address=address)
    return describe_caller(caller, csrf)


@router.get("", summary="The current caller")
async def show(context: Anybody, request: Request, response: Response) -> Who:
    """Return the name, tenant and powers of the caller's key."""
    session = context.native.sessions.find_session(request)
    response.headers["cache-control"] = "no-store"
    return describe_caller(context.caller, session.csrf if session is not None else "")


@router.delete("", status_code=204, summary="Sign a browser out")
async def end(context: Anybody, request: Request, response: Response) -> None:
    """End this browser's session."""
    context.native.sessions.end(request)
    response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict", path="/")


def describe_caller(caller: Caller, csrf: str) -> Who:
    return Who(tenant=caller.tenant, name=caller.name, powers=sorted(caller.powers), csrf=csrf)
