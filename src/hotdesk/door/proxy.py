"""One connection of a desk: its requests are judged, forwarded and answered in turn; tunnels if a rule says so."""

from __future__ import annotations

import asyncio
import ssl
import time
from functools import partial

from hotdesk.brief import rule_text
from hotdesk.brief.data import Scheme
from hotdesk.door import denials, door_local
from hotdesk.door.egress import Egress, UnconfirmedError
from hotdesk.door.exchange import Forward
from hotdesk.door.http import framing
from hotdesk.door.http.ca import AuthorityEndedError
from hotdesk.door.http.framing import HttpMessageError, Request
from hotdesk.door.http.relay import Count, RuleSpentError, relay
from hotdesk.door.http.upstream import UnreachableError, Upstreams, UpstreamSlot
from hotdesk.door.http.wire import HungUpError, Wire
from hotdesk.door.policy import target
from hotdesk.door.policy.target import Authority, UnclearTargetError
from hotdesk.event import Exchange, RequestAdmitted

_IDLE_SECONDS = 90.0
"""Seconds a connection may wait for its next request."""
_LINGER_SECONDS = 2.0
_FLUSH_SECONDS = 30.0
"""Seconds a desk may take to read the rest of a response."""
HEAD_SECONDS = 15.0
"""Seconds a request's head may take, from its first byte to its last."""


class DeskConnection:
    """One connection, plain or inside the TLS of a CONNECT."""

    def __init__(self, way: Egress, wire: Wire, upstreams: Upstreams) -> None:
        self.way = way
        self.wire = wire
        self.place = UpstreamSlot(upstreams)

    async def serve(self) -> None:
        """Answer requests until either side ends the connection."""
        self.way.cut.add(self.hang_up)
        try:
            while await self.turn():
                if self.wire.buffer:
                    await asyncio.sleep(0)  # a desk that sends many requests at once lets others run in between
            await self.wire.linger(_LINGER_SECONDS)
        except (HungUpError, OSError, ssl.SSLError, AuthorityEndedError):
            pass  # the desk disconnected, or did not complete a request
        finally:
            self.way.cut.discard(self.hang_up)
            self.place.leave()
            await self.wire.end(_FLUSH_SECONDS)

    def hang_up(self) -> None:
        self.wire.reset()
        self.place.leave()

    async def turn(self) -> bool:
        """Handle one request; return whether another may follow."""
        try:
            await self.way.outside.steady()
            head = await self.read_head()
            if not head:
                return False
            request = framing.parse_request(head)
            if request.method == "CONNECT":
                return await self.connect(request)
            return await self.forward(request)
        except HttpMessageError as e:
            return self.refuse(e.status, "a request", e.reason, "broken")
        except UnclearTargetError as e:
            return self.refuse(400, "a request", e.reason, "broken")

    async def read_head(self) -> bytes:
        """Read a head; return nothing if the desk disconnected or took too long."""
        loop = asyncio.get_running_loop()
        end, searched, until = -1, 0, 0.0
        while (end := framing.find_end(self.wire.buffer, searched) if self.wire.buffer else -1) < 0:
            searched = len(self.wire.buffer)
            if searched and not until:
                until = loop.time() + HEAD_SECONDS
            patience = until - loop.time() if until else _IDLE_SECONDS
            if patience <= 0 or not await self.wire.fill(patience):
                return b""
        head = bytes(self.wire.buffer[:end])
        del self.wire.buffer[:end]
        return head

    def refuse(
        self,
        status: int,
        what: str,
        why: str,
        verdict: str = "deny",
        *,
        reason: bytes = b"",
        where: Authority | None = None,
    ) -> bool:
        """Send and record a denial; return that no request may follow. `where` is the target of a CONNECT."""
        remedy = denials.NO_PERMISSION_MISSING if verdict == "broken" else ""
        value = denials.describe_denial(what, why, self.way.policy.list_allowed(), self.way.may_ask, remedy)
        data = denials.answer(status, value, keep=False, reason=reason)
        self.wire.write(data)
        inside = self.place.inside or where or Authority("", 0)
        scheme = "https" if where else self.place.scheme
        self.way.outside.note(
            Exchange(
                self.way.desk, self.way.step, "broken" if verdict == "broken" else "deny",
                denials.sanitize_text(why, 300),
                what.split(" ")[0] if verdict != "broken" else "", scheme, inside.host, inside.port, "",
                status, 0, len(data), 0,
            )
        )  # fmt: skip
        return False

    async def forward(self, request: Request) -> bool:
        hosts = request.headers.get_all(b"host")
        meant = target.read(request.method, request.target, hosts, self.place.inside, self.place.scheme)
        if meant.host == denials.LOCAL:
            return await door_local.answer(self.way, self.wire, request, meant)
        return await Forward(self.way, self.wire, self.place, request, meant).run()

    # -- CONNECT ----------------------------------------------------------------------------------------------

    async def connect(self, request: Request) -> bool:
        """Handle a CONNECT: intercept the connection, or open a tunnel if a rule says so."""
        where = target.connect(request.target)
        what = f"CONNECT {where.host}:{where.port}"
        host = (
            target.parse_single_host(request.headers.get_all(b"host"))
            if b"host" in request.headers
            else (where.host, where.port)
        )
        policy = self.way.policy
        if self.place.inside is not None:
            return self.refuse(403, what, "nested CONNECT is not supported")
        if host[0] != where.host or host[1] not in (None, where.port):
            return self.refuse(400, what, "the Host header does not match the host of the CONNECT", where=where)
        reachable: list[Scheme] = [
            scheme for scheme in ("https", "http") if policy.can_reach(scheme, where.host, where.port)
        ]
        if self.way.shut or self.way.leaves is None or not reachable:
            why = self.way.shut or f"default deny: no rule names {where.host} at port {where.port}"
            shown = f"hotdesk refuses {where.host}:{where.port}, see http://door.local/".encode()
            return self.refuse(403, what, why, reason=shown, where=where)
        if self.wire.buffer:
            return self.refuse(
                400, what, "data was sent before the response to CONNECT; wait for the response", where=where
            )
        is_tunnel = policy.tunnel(where.host, where.port)
        if is_tunnel and (why := await self.confirm_tunnel(where)):
            return self.refuse(503, what, why, "broken", where=where)
        self.place.inside, self.place.scheme = where, reachable[0]
        self.wire.hold()
        self.wire.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        if is_tunnel:
            return await self.tunnel(where)
        if self.place.scheme == "https":
            await self.intercept(where)
        return True

    async def intercept(self, where: Authority) -> None:
        """Terminate TLS as the host, with a certificate that the desk trusts."""
        assert self.way.leaves is not None
        context = self.way.leaves.get_tls_context(where.host)
        context.sni_callback = partial(check_name, where.host)
        try:
            await self.wire.start_tls(context)
        except (ssl.SSLError, OSError, HungUpError) as e:
            failure = str(e) if isinstance(e, HungUpError) else getattr(e, "reason", None) or type(e).__name__
            why = f"the TLS handshake of the program in the desk failed ({failure}); likely causes: its TLS server "
            why += f"name is not {where.host}, or it does not trust the desk's certificate authority"
            self.way.outside.note(
                Exchange(
                    self.way.desk, self.way.step, "broken", why, "CONNECT", "https", where.host, where.port, "", 0,
                    0, 0, 0,
                )
            )  # fmt: skip
            raise

    async def confirm_tunnel(self, where: Authority) -> str:
        """Wait until the server of this node has the record of a tunnel, if it requires that; return why it has not."""
        epoch = self.way.epoch
        rule = rule_text(self.way.policy.tunnel_rules(where.host, where.port)[0])
        place = ("https", where.host, where.port, "", -1)
        try:
            await self.way.confirm(RequestAdmitted(self.way.desk, self.way.step, rule, "CONNECT", *place))
        except UnconfirmedError as e:
            return str(e)
        return "" if epoch == self.way.epoch else "the step, scope or desk that admitted this tunnel has ended"

    async def tunnel(self, where: Authority) -> bool:
        """Pass bytes both ways unread, and count them."""
        rule, *above = self.way.policy.tunnel_rules(where.host, where.port)
        count, begun, note, status = Count(self.way, (rule, *above)), time.monotonic(), "", 0
        private = all(each.private for each in (rule, *above))
        try:
            count.begin()
            async with self.way.dialling:
                upstream = await self.place.upstreams.dial(
                    "http",
                    where.host,
                    where.port,
                    private=private,
                    named=rule.host,
                    names=self.way.names,
                    bars=self.way.policy.bars,
                    proxy=self.way.proxy,
                )
            self.place.keep(("tunnel", where.host, where.port), upstream)
            status = 200
            note = await relay(self.wire, upstream, count)
        except (UnreachableError, RuleSpentError) as e:
            note = str(e)
        finally:
            event = Exchange(
                self.way.desk, self.way.step, "allow", rule_text(rule), "CONNECT", "https", where.host, where.port, "",
                status, count.up, count.down, round((time.monotonic() - begun) * 1000), (), note or "tunnel, not read",
            )  # fmt: skip
            self.way.outside.note(event)
        return False


def check_name(host: str, _connection: object, name: str | None, _context: object) -> int | None:
    """Refuse a TLS handshake for a name other than the CONNECT target."""
    if name is None and _is_address(host):
        return None
    return None if name is not None and name.lower().rstrip(".") == host else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME


def _is_address(host: str) -> bool:
    """Return whether a host is an address: TLS server names exclude addresses."""
    return ":" in host or host.replace(".", "").isdigit()
