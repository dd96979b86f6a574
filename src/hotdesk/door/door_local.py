"""`http://door.local/`: shows a desk its rules and accepts requests for more access."""

from __future__ import annotations

import json
import time

from hotdesk.brief import Rule, parse_rule, rule_text
from hotdesk.door import denials
from hotdesk.door.egress import Egress
from hotdesk.door.http.framing import BodyReader, Request
from hotdesk.door.http.wire import Wire
from hotdesk.door.policy.target import Target
from hotdesk.errors import BriefError
from hotdesk.event import Exchange

BODY = 8192
BODY_SECONDS = 10.0
ASK_HEADER = b"x-hotdesk-ask"
"""Required header. A web page cannot send it to another origin without that origin's permission."""


async def answer(way: Egress, wire: Wire, request: Request, meant: Target) -> bool:
    """Answer a request to the door itself; return whether another request may follow on this connection."""
    begun = time.monotonic()
    status, value = await decide(way, wire, request, meant)
    unread = request.body and (status >= 400 or meant.path != "/ask")
    keep = request.keep_alive and not unread
    wire.write(denials.answer(status, value, keep=keep, head_only=meant.method == "HEAD"))
    await wire.drain(BODY_SECONDS)
    event = Exchange(
        way.desk, way.step, "allow" if status < 400 else "deny", "the door itself", meant.method, meant.scheme,
        meant.host, meant.port, denials.sanitize_text(meant.path), status, 0, 0,
        round((time.monotonic() - begun) * 1000),
    )  # fmt: skip
    way.outside.note(event)
    return keep


async def decide(way: Egress, wire: Wire, request: Request, meant: Target) -> tuple[int, object]:
    match meant.scheme, meant.port, meant.method, meant.path:
        case "http", 80, "GET" | "HEAD", "/":
            return 200, _describe_status(way)
        case "http", 80, "GET" | "HEAD", "/policy":
            return 200, {"allowed": list(way.policy.list_allowed()), "step": way.step, "grants": _list_grants(way)}
        case "http", 80, "POST", "/ask":
            return await ask(way, wire, request)
    return 404, denials.describe_denial(
        f"{meant.method} {meant.url}", "door.local serves only /, /policy and POST /ask", (), way.may_ask
    )


def _describe_status(way: Egress) -> dict[str, object]:
    return {
        "desk": way.desk,
        "step": way.step,
        "open": not way.shut and way.leaves is not None,
        "why": way.shut,
        "allowed": list(way.policy.list_allowed()),
        "waiting": len(way.questions),
        "more": {"policy": "http://door.local/policy", "ask": denials.HOW_TO_ASK if way.may_ask else "not available"},
    }


def _list_grants(way: Egress) -> list[str]:
    """List the active grants as `SECRET at HOST:PORT`, without values or placeholders."""
    return [f"{one.grant.secret} at {one.grant.host}:{one.grant.port}" for one in way.list_active_grants()]


async def ask(way: Egress, wire: Wire, request: Request) -> tuple[int, object]:
    """Request one more rule, and answer once a person outside has decided."""
    if not way.may_ask or way.leaves is None:
        return 403, denials.describe_denial("POST http://door.local/ask", "this desk may not request more access")
    if request.headers.get(ASK_HEADER) is None:
        return 403, denials.describe_denial(
            "POST http://door.local/ask", "the header `X-Hotdesk-Ask: 1` is missing; add it to the request", (), True
        )
    try:
        rule, reason = _read_question(await read_body(wire, request))
        way.policy.widen(rule)
    except (BriefError, ValueError, RecursionError) as e:
        return 400, denials.describe_denial("POST http://door.local/ask", f"{e}", (), True)
    match await way.ask(rule, None, reason):
        case "approved":
            way.policy = way.policy.widen(rule)
            return 200, {"approved": rule_text(rule)}
        case "busy":
            return 429, denials.describe_denial(
                "POST http://door.local/ask",
                "too many requests are waiting for an approval; wait until one is decided",
                (),
                True,
            )
    return 403, denials.describe_denial(
        f"the request for {rule_text(rule)}", "the request was not approved", way.policy.list_allowed()
    )


async def read_body(wire: Wire, request: Request) -> bytes:
    reader, body = BodyReader(request.body), bytearray()
    if request.expects:
        wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    while not reader.done:
        data = await wire.read(BODY_SECONDS)
        if not data:
            reader.feed_eof()
        payload, rest = reader.feed(data)
        body += payload
        wire.buffer[:0] = rest
        if len(body) > BODY:
            raise BriefError(f"the body of the request has more than {BODY} bytes")
    return bytes(body)


def _read_question(body: bytes) -> tuple[Rule, str]:
    """Parse a request for access: one allow rule and a reason."""
    data = json.loads(body)
    if not isinstance(data, dict) or not isinstance(data.get("rule"), str) or not set(data) <= {"rule", "reason"}:
        raise BriefError('the body of the request must be {"rule": "GET example.test/data/*", "reason": "why"}')
    return parse_rule(data["rule"]), str(data.get("reason", ""))
