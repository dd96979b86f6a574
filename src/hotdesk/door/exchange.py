"""One request and its response: judged, given its secrets, forwarded, scrubbed on the way back, recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import lru_cache

from hotdesk.brief import READ, Rule, rule_text
from hotdesk.door import denials
from hotdesk.door.delivery import Delivery
from hotdesk.door.denials import ExchangeError
from hotdesk.door.egress import Egress, UnconfirmedError
from hotdesk.door.grant import Refusal
from hotdesk.door.http import framing
from hotdesk.door.http.framing import BodyReader, Headers, HttpMessageError, Request, Response
from hotdesk.door.http.relay import Count, RuleSpentError, relay
from hotdesk.door.http.upstream import UnreachableError, UpstreamSlot
from hotdesk.door.http.wire import BODY_SECONDS, HungUpError, TimedOutError, Wire
from hotdesk.door.policy.budget import RuleBudget
from hotdesk.door.policy.policy import PolicyDecision
from hotdesk.door.policy.target import Target, is_override
from hotdesk.door.request_body import RequestBody
from hotdesk.door.secrets import inject, signature
from hotdesk.door.secrets.bodies import BODY_TOO_LARGE
from hotdesk.door.secrets.encodings import DecodersBusyError, UnreadableError
from hotdesk.door.secrets.issued_tokens import Issued
from hotdesk.door.secrets.outgoing import Outgoing, harden
from hotdesk.door.secrets.response import Cleaner, end_to_end
from hotdesk.event import Exchange, RequestAdmitted

ANSWER_SECONDS = 300.0
"""Seconds an upstream may take before it responds."""
INFORMED = 8
"""Interim responses that one request may get."""
REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods that may be sent twice: an upstream may have carried out the first request before it disconnected."""
REMOVED = b"X-Hotdesk-Removed-Headers"
"""Response header that tells a desk which of its headers were not forwarded."""
_REMOVED_SHOWN = 20
OURS = frozenset({b"host", b"expect", b"content-length"})


@lru_cache(maxsize=1024)
def _format_rule_cached(rule: Rule) -> str:
    """Return a rule as text for the journal; cached, because the same rules are recorded again and again."""
    return rule_text(rule)


class Forward:
    """One request that the door forwards."""

    def __init__(self, way: Egress, wire: Wire, place: UpstreamSlot, request: Request, meant: Target) -> None:
        self.way = way
        self.wire = wire
        self.place = place
        self.request = request
        self.meant = meant
        self.count = Count(way)
        self.heads = 0
        """Bytes of the heads of requests that were sent upstream."""
        self.decision = PolicyDecision("deny", None, "not decided")
        self.key = (meant.scheme, meant.host, meant.port)
        self.upstream: Wire | None = None
        self.begun = time.monotonic()
        self.epoch = way.epoch
        self.is_test = way.is_proving()
        self.status = 0
        self.used: tuple[str, ...] = ()
        self.ids: frozenset[str] = frozenset()
        self.granted = False
        """Whether the host has or had a grant, so that its response must be checked for secrets."""
        self.returns = False
        """Whether a value that the host issued goes back with the request."""
        self.issued: Issued | None = None
        self.body: RequestBody
        """The request's body, once it is known what it may contain."""
        self.removed: tuple[str, ...] = ()
        """Headers of the desk that were not forwarded."""
        self.note = ""
        self.delivery = Delivery(wire)
        self.keep = request.keep_alive

    async def run(self) -> bool:
        """Carry out the request; return whether another may follow on this connection."""
        try:
            await self.admit()
            await self.carry()
        except ExchangeError as e:
            await self.fail(e.status, e.why)
        except (RuleSpentError, DecodersBusyError) as e:
            await self.fail(429, str(e))
        except UnreachableError as e:
            await self.fail(502, str(e))
        except UnreadableError as e:
            await self.fail(502, f"the response from {self.meant.host} cannot be checked for secrets: {e}")
        except HttpMessageError as e:
            await self.fail(502, f"the response from {self.meant.host} is not acceptable HTTP: {e}")
        except (HungUpError, OSError) as e:
            self.note = self.note or f"interrupted: {e}"
            self.break_off()
        finally:
            if self.upstream is not None:
                self.upstream.abort()
            self.place.busy = None
            self.write_down()
        return self.keep

    async def fail(self, status: int, why: str) -> None:
        """Answer with a denial in place of the upstream; if a response has already begun, abort the connection."""
        self.note = self.note or denials.sanitize_text(why, 300)
        unread = bool(self.request.body)
        if self.delivery.started:
            self.break_off()
            self.wire.abort()
            return
        what = f"{self.meant.method} {self.meant.url}"
        self.keep = self.keep and not unread
        remedy = "" if status in (403, 429) else denials.NO_PERMISSION_MISSING
        value = denials.describe_denial(what, why, self.way.policy.list_allowed(), self.way.may_ask, remedy)
        data = denials.answer(status, value, keep=self.keep, head_only=self.meant.method == "HEAD")
        self.status = status
        self.wire.write(data)
        await self.wire.drain(BODY_SECONDS)

    def break_off(self) -> None:
        """End the connection so that a response that has begun does not look complete to the desk."""
        self.keep = False
        self.delivery.break_off()

    def format_rule(self) -> str:
        """Return the rule that decided, or the reason why none did, for the journal."""
        rule = _format_rule_cached(self.decision.rule) if self.decision.rule else self.decision.why
        return denials.sanitize_text(rule, 300)

    def format_path(self) -> str:
        """Return the path for the journal, with the names of the query's parameters only."""
        names = [pair.split("=", 1)[0] for pair in self.meant.query.split("&")] if self.meant.query else []
        return denials.sanitize_text(self.meant.path + ("?" + "&".join(names) if names else ""), 1000)

    def write_down(self) -> None:
        self.way.outside.note(
            Exchange(
                self.way.desk, self.way.step, self.decision.verdict, self.format_rule(),
                self.meant.method, self.meant.scheme, self.meant.host, self.meant.port,
                self.format_path(), self.status, self.count.up, self.count.down,
                round((time.monotonic() - self.begun) * 1000), self.used, self.note, self.is_test,
                max(0, self.count.up - self.heads),
            )
        )  # fmt: skip

    # -- admission --------------------------------------------------------------------------------------------

    async def admit(self) -> None:
        """Judge the request; wait for an approval if the policy requires one."""
        if self.way.shut:
            raise ExchangeError(403, self.way.shut)
        self.decision = decision = self.way.policy.judge(self.meant)
        if decision.verdict == "ask":
            await self.hold(decision)
        elif decision.verdict == "deny":
            raise ExchangeError(403, decision.why)
        self.count = Count(self.way, tuple(rule for rule in (decision.rule, decision.ceiling) if rule is not None))
        self.require_budget(RuleBudget.check_request)  # a request over its budget is not recorded as admitted
        if self.request.body and self.only_reads:
            raise ExchangeError(403, "this rule is read-only; requests with a body need `write` in the rule")
        await self.confirm()
        self.require_budget(RuleBudget.take_request)

    def require_budget(self, measure: Callable[[RuleBudget, float], str | None]) -> None:
        for budget in self.count.budgets:
            if why := measure(budget, time.monotonic()):
                raise ExchangeError(429, why)

    async def confirm(self) -> None:
        """Wait until the server of this node has the record of this request, if it requires that."""
        if not self.way.sync:
            return
        size = self.request.body or 0
        body = size if isinstance(size, int) and not self.request.upgrade else -1
        try:
            await self.way.confirm(
                RequestAdmitted(
                    self.way.desk, self.way.step, self.format_rule(), self.meant.method, self.meant.scheme,
                    self.meant.host, self.meant.port, self.format_path(), body,
                )
            )  # fmt: skip
        except UnconfirmedError as e:
            raise ExchangeError(503, str(e)) from None

    @property
    def only_reads(self) -> bool:
        rules = (rule for rule in (self.decision.rule, self.decision.ceiling) if rule is not None)
        return any(set(rule.methods) <= set(READ) for rule in rules)

    async def hold(self, decision: PolicyDecision) -> None:
        """Request an approval for exactly this request: its number of bytes is part of the approval."""
        body = self.request.body or 0
        size = body if isinstance(body, int) else -2
        once = Rule(
            self.meant.host, scheme=self.meant.scheme, port=self.meant.port, methods=(self.meant.method,),
            path=self.meant.path, step=self.way.step, up=size if size > 0 else None,
        )  # fmt: skip
        match await self.way.ask(once, self.meant, size=size):
            case "approved":
                self.note = "approved"
            case "busy":
                raise ExchangeError(429, "too many requests are already waiting for an approval; try again later")
            case _:
                raise ExchangeError(403, f"{decision.why}; the request was not approved")

    # -- sending ----------------------------------------------------------------------------------------------

    async def carry(self) -> None:
        headers, query, body = await self.prepare()
        reused = self.place.take(self.key)
        self.upstream = reused or await self.dial()
        try:
            answer = await self.send(headers, query, body)
        except HungUpError as e:
            first = reused is None or self.request.body or self.count.down or isinstance(e, TimedOutError)
            if first or self.meant.method not in REPEATABLE:
                raise ExchangeError(502, f"the exchange with {self.meant.host} was cut off: {e}") from None
            self.upstream.abort()
            self.upstream = await self.dial()  # the upstream had closed the idle connection
            answer = await self.send(headers, query, body)
        await self.bring_back(answer)

    async def dial(self) -> Wire:
        assert self.decision.rule is not None
        async with self.way.dialling:
            return await self.place.upstreams.dial(
                self.meant.scheme,
                self.meant.host,
                self.meant.port,
                private=self.decision.private,
                named=self.decision.rule.host,
                names=self.way.names,
                bars=self.way.policy.bars,
                proxy=self.way.proxy,
            )

    async def prepare(self) -> tuple[Headers, bytes, bytes | None]:
        """Build the request to send: clean, canonical, with its secrets. The body is read only if it is needed."""
        passing = framing.end_to_end(self.request.headers, OURS)
        headers = [pair for pair in passing if not is_override(pair[0].decode("ascii"))]
        out = Outgoing(
            self.meant.scheme, self.meant.host, self.meant.port, self.meant.method, self.meant.path,
            self.meant.query.encode("ascii"), headers,
        )  # fmt: skip
        self.issued = self.way.get_issued(self.meant.host, self.meant.port)
        issued = self.issued if self.meant.scheme == "https" else None
        exact = self.decision.rule is not None and self.decision.rule.path == self.meant.path
        grants = {one.id: one for one in self.way.list_active_grants()}
        plan = inject.plan_injection(out, grants.values(), issued, self.way.ours, minting_named=exact)
        if isinstance(plan, Refusal):
            raise self.way.refuse(plan, self.meant.host)
        self.granted, self.returns = plan.granted or issued is not None, bool(plan.returned)
        self.removed = tuple(sorted(plan.removed))
        self.body = RequestBody(
            self.way, self.wire, self.request, self.meant.host,
            granted=self.granted, allowed=plan.allowed, signed=plan.signing is not None,
        )  # fmt: skip
        too_large = BODY_TOO_LARGE if plan.body else signature.BODY_TOO_LARGE
        has_whole_body = plan.whole and self.request.body is not None
        body = await self.body.read_whole(too_large) if has_whole_body else None
        self.body.check_whole(body)
        values = {id: await self.way.get_value(grants[id]) for id in inject.list_needed_grants(plan, body or b"")}
        sent = inject.apply(plan, out, body or b"", values)
        if isinstance(sent, Refusal):
            raise self.way.refuse(sent, self.meant.host)
        self.used, self.ids = sent.used, sent.ids
        pairs = [(b"Host", self.meant.authority.encode()), *sent.headers, *self.way.make_identity_headers(self.meant)]
        if issued is not None and not (plan.granted or plan.returned):
            pairs = harden(pairs)  # the grant has ended, but values sent under it may still come back
        if plan.signing:
            pairs = inject.sign_request(plan, out, sent, pairs, values, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
        if body is not None:
            pairs.append((b"Content-Length", str(len(sent.body)).encode()))
        elif self.request.body == "chunked":
            pairs.append((b"Transfer-Encoding", b"chunked"))
        elif self.request.body is not None:
            pairs.append((b"Content-Length", str(self.request.body).encode()))
        return self.add_upgrade(Headers(pairs)), sent.query, sent.body if body is not None else None

    def add_upgrade(self, headers: Headers) -> Headers:
        """Return the headers with an upgrade to WebSocket if no secret is involved; refuse any other upgrade."""
        if not self.request.upgrade:
            return headers
        if self.request.upgrade != b"websocket":
            raise ExchangeError(
                501,
                f"an upgrade to {denials.sanitize_text(self.request.upgrade.decode('latin-1'), 40)} is not supported; "
                "only websocket is",
            )
        if self.granted or self.body.allowed is not None:
            raise ExchangeError(403, inject.NO_UPGRADE)
        if self.only_reads:
            raise ExchangeError(403, "this rule is read-only; a WebSocket can send data, so the rule needs `write`")
        return headers.add(b"Connection", b"Upgrade").add(b"Upgrade", b"websocket")

    def check_still_admitted(self) -> None:
        """Refuse to send if the step, grant or desk that admitted the request ended during dialling."""
        over = self.returns and self.issued is not self.way.get_issued(self.meant.host, self.meant.port)
        if self.wire.lost or over or self.epoch != self.way.epoch or not self.ids <= self.way.live.keys():
            raise ExchangeError(
                403,
                "the step, grant or desk that admitted this request ended before the request was sent; repeat the "
                "request only in a step that allows it",
            )

    async def send(self, headers: Headers, query: bytes, body: bytes | None) -> Response:
        """Send head and body, and read the response's head; the response may begin before the whole body is sent."""
        assert self.upstream is not None
        line = self.meant.path.encode("ascii") + (b"?" + query if query else b"")
        try:
            head = framing.request_head(self.meant.method, line, headers)
        except HttpMessageError as e:
            raise ExchangeError(e.status, e.reason) from None
        self.heads += len(head)
        self.count.add(up=len(head) + len(body or b""))
        self.check_still_admitted()
        self.place.busy = self.upstream
        self.upstream.write(head + (body or b""))
        if body is not None or not self.request.body:
            return await self.answer_head()
        upload = asyncio.ensure_future(self.body.stream(self.upstream, self.count))
        answering = asyncio.ensure_future(self.answer_head())
        try:
            await asyncio.wait((upload, answering), return_when=asyncio.FIRST_COMPLETED)
            if upload.done() and upload.exception() is not None and not answering.done():
                upload.result()
            answer = await answering
            if not upload.done() or upload.exception() is not None:
                self.keep = False  # it answered early: the next request would be taken for the rest of this one
            return answer
        finally:
            for task in (upload, answering):
                task.cancel()
            await asyncio.gather(upload, answering, return_exceptions=True)

    # -- receiving --------------------------------------------------------------------------------------------

    async def answer_head(self) -> Response:
        """Read the response's head, skipping interim responses."""
        assert self.upstream is not None
        for _ in range(INFORMED):
            searched = 0
            while (end := framing.find_end(self.upstream.buffer, searched) if self.upstream.buffer else -1) < 0:
                searched = len(self.upstream.buffer)
                if not await self.upstream.fill(ANSWER_SECONDS):
                    raise HungUpError("the server sent no response")
            head = bytes(self.upstream.buffer[:end])
            del self.upstream.buffer[:end]
            self.count.add(down=len(head))
            answer = framing.parse_response(head, self.meant.method)
            if answer.status >= 200 or answer.status == 101:
                return answer
        raise ExchangeError(502, f"{self.meant.host} sent {INFORMED} interim (1xx) responses and no final response")

    async def bring_back(self, answer: Response) -> None:
        """Send the response to the desk, with secrets removed."""
        assert self.upstream is not None
        self.status = answer.status
        if answer.status == 101:
            await self.switch(answer)
            return
        cleaner = Cleaner(answer, self.way.scrubber, self.issued, granted=self.granted)
        headers = cleaner.clean_headers(end_to_end(answer))
        if self.removed:
            self.tell_removed(headers)
        chunked = self.delivery.frame(
            headers, answer, rewritten=cleaner.active, version=self.request.version, keep=self.keep
        )
        self.keep = self.keep and not self.delivery.ends_with_close
        self.delivery.put(
            framing.format_response_head(answer.status, b"" if cleaner.active else answer.reason, Headers(headers))
        )
        if answer.body is not None:
            coding = answer.headers.get(b"content-encoding") if cleaner.unpack is not None else None
            async with self.way.reserve_decoder(coding or b""):
                await self.stream_down(BodyReader(answer.body), cleaner, chunked)
        await self.delivery.flush()
        if cleaner.hits:
            self.note = self.note or "a secret was removed from the response"
            self.way.report_leak(cleaner.hits - self.ids, self.meant.host)
        if answer.keep_alive and self.keep and not self.upstream.buffer:
            self.place.keep(self.key, self.upstream)
            self.upstream = None

    def tell_removed(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Tell the desk and the journal which of its headers were withheld from this host."""
        names = ", ".join(self.removed[:_REMOVED_SHOWN])
        headers.append((REMOVED, names.encode("latin-1")))
        self.note = self.note or denials.sanitize_text(f"headers removed: {names}", 300)

    async def stream_down(self, reader: BodyReader, cleaner: Cleaner, chunked: bool) -> None:
        assert self.upstream is not None
        while not reader.done:
            if not self.upstream.buffer:
                await self.delivery.flush()  # the rest may take long to arrive
            data = await self.upstream.read(BODY_SECONDS)
            if not data and self.upstream.cut_off:
                raise ExchangeError(502, f"the connection to {self.meant.host} broke off during its response")
            if not data:
                reader.feed_eof()
            payload, rest = reader.feed(data)
            if rest:
                raise ExchangeError(502, f"{self.meant.host} sent more data than the length of its response allows")
            self.count.add(down=len(payload))
            for piece in cleaner.feed(payload, last=reader.done):
                self.delivery.put(framing.encode_chunk(piece) if chunked else piece)
                if self.delivery.is_full:
                    await self.delivery.flush()
        rest = cleaner.finish()
        self.delivery.put(framing.encode_chunk(rest) if chunked else rest)
        if chunked:
            self.delivery.put(framing.LAST)

    # -- streams ----------------------------------------------------------------------------------------------

    async def switch(self, answer: Response) -> None:
        assert self.upstream is not None
        if self.request.upgrade != b"websocket" or (answer.headers.get(b"upgrade") or b"").lower() != b"websocket":
            raise ExchangeError(502, f"{self.meant.host} switched to a protocol that the request did not ask for")
        headers = Headers((*end_to_end(answer), (b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")))
        self.delivery.started = True
        self.wire.write(framing.format_response_head(101, b"Switching Protocols", headers))
        self.keep = False
        self.note = await relay(self.wire, self.upstream, self.count)
