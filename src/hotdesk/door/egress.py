"""The live egress state of one desk: policy, grants and their current values, approval requests, bytes used."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol

from cryptography.hazmat.primitives.asymmetric import ec

from hotdesk.brief import Grant, Rule, compute_digest, parse_rule, parse_scope, rule_text
from hotdesk.dataclass import dataclass
from hotdesk.door import canary
from hotdesk.door.alarms import DeskAlarms
from hotdesk.door.denials import ExchangeError
from hotdesk.door.grant import LiveGrant, Refusal
from hotdesk.door.http.ca import CertificateAuthority, Leaves
from hotdesk.door.http.socks import SocksProxy
from hotdesk.door.policy.budget import RuleBudget
from hotdesk.door.policy.policy import Policy
from hotdesk.door.policy.target import Target
from hotdesk.door.secrets.encodings import DecodersBusyError, needs_large_decoder
from hotdesk.door.secrets.issued_tokens import Issued
from hotdesk.door.secrets.outgoing import IDENTITY
from hotdesk.door.secrets.scrub import Scrubber, list_scrubbed_secrets
from hotdesk.door.secrets.signature import SigV4Signer
from hotdesk.event import Alarm, Answered, Asked, Event, RequestAdmitted, Revoked
from hotdesk.strict import read

_STATIC = ("token", "basic", "sigv4")
"""Kinds of secret whose value is the same at each use."""
ASKS = 8
"""Approval requests of one desk that may be open at once."""
ASKS_AN_HOUR = 60
DIALS = 6
"""Connections that one desk may be dialling at once."""
DECODERS = 8
"""Brotli and zstd bodies of one desk that may be decoded at once: each decoder may hold up to 16 MiB."""
DECODER_WAIT_S = 60.0
CONFIRM_SECONDS = 10.0
"""Seconds that a request waits until the server of this node has its record, if the server requires that."""
REASON = 300
"""Characters of a desk's own reason for a request that are shown to a person."""


class UnconfirmedError(Exception):
    """The server does not have the record of a request, which must therefore not be sent; the text says why."""


class DoorServices(Protocol):
    """The services of the door that an egress needs."""

    def note(self, event: Event) -> None:
        """Record an event."""

    async def confirm(self, event: RequestAdmitted) -> None:
        """Record an event, and wait until the server of this node has it; raise `UnconfirmedError` if it has not."""

    async def steady(self) -> None:
        """Wait while events happen faster than they can be recorded."""

    async def mint(self, desk: str, live: GrantValue) -> bytes:
        """Return a value that is created when it is used."""


@dataclass(slots=True)
class GrantValue:
    live_grant: LiveGrant
    values: Mapping[str, str] = field(repr=False)
    until: float | None = None
    minted: bytes = field(default=b"", repr=False)
    fresh_until: float = 0.0
    """When a minted value must be minted again, as a Unix time."""
    minting: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    """Ensures that one request mints at a time; the requests that wait use the same value."""

    def is_over(self) -> bool:
        return self.until is not None and time.time() >= self.until


class Egress:
    """What one desk may reach, and with which secrets. Without a charter it reaches nothing."""

    def __init__(self, desk: str, outside: DoorServices) -> None:
        self.desk = desk
        self.outside = outside
        self.policy = Policy(())
        self.step = ""
        self.names: Mapping[str, str] = {}
        self.proxy: SocksProxy | None = None
        """The SOCKS proxy that connects admitted requests, or `None` if the door connects them itself."""
        self.leaves: Leaves | None = None
        self.live: dict[str, GrantValue] = {}
        self.ours: frozenset[str] = frozenset()
        """Hosts the desk uses with granted credentials only, even after a grant has ended: its own are refused."""
        self.identities: Mapping[str, str] = {}
        """Signed statements of which desk and step a request is from, by grant id, for hosts that want them."""
        self.scrubber = Scrubber()
        """Every value that was sent with a request of this desk and must not come back. Values are only added."""
        self.issued: dict[tuple[str, int], Issued] = {}
        """Tokens that hosts with a grant issued, by host and port."""
        self.scopes = 0
        """How many scopes the desk has had."""
        self.dialling = asyncio.Semaphore(DIALS)
        self.decoders = asyncio.Semaphore(DECODERS)
        self.budgets: dict[Rule, RuleBudget] = {}
        self.alarms = DeskAlarms(outside.note)
        self.questions: dict[str, tuple[str, asyncio.Future[bool]]] = {}
        self.question_times: list[float] = []
        self.approval_seconds = 120.0
        self.may_ask = False
        self.sync = False
        """Whether the server of this node must have the record of each request before it is sent."""
        self.shut = ""
        """The reason why every request is refused; empty if they are not."""
        self.cut: set[Callable[[], None]] = set()
        """Callbacks that close the connections admitted under the current policy."""
        self.moved = 0
        self.epoch = 0
        """Incremented when earlier admissions end: a request admitted before must not be sent any more."""

    def adopt(self, charter: Mapping[str, Any], leaf_key: ec.EllipticCurvePrivateKey, scratch: Path) -> None:
        self.leaves = Leaves(
            CertificateAuthority(charter["certificate"].encode(), charter["key"].encode()), leaf_key, scratch
        )
        self.approval_seconds = float(charter["approval_seconds"])
        self.hold(charter)
        if self.is_proving():
            self.leaves.get_tls_context(canary.HOST)  # not handed over yet: later this would delay a request

    def is_proving(self) -> bool:
        """Return whether the self-test is still running, so that the desk was not handed over yet."""
        return canary.RULE in self.policy.rules

    def hold(self, charter: Mapping[str, Any]) -> None:
        """Replace the rules and grants with those of a charter; values sent before are still scrubbed."""
        scope = parse_scope(charter["scope"])
        self.scopes += 1
        self.step = str(charter["step"])
        ceiling = [parse_rule(text) for text in charter["ceiling"]]
        tried = [canary.RULE] if any(each["grant"]["host"] == canary.HOST for each in charter["grants"]) else []
        top = [*ceiling, *tried] if ceiling else ()
        allowed = [parse_rule(text) for text in charter.get("allowed", ())]
        self.policy = Policy([*scope.rules, *tried], self.step, top, allowed, scope.anywhere)
        self.names = scope.names
        password = base64.b64decode(charter.get("proxy_password", ""))
        self.proxy = SocksProxy.of(scope.proxy, password) if scope.proxy is not None else None
        self.may_ask = scope.may_ask
        self.sync = charter.get("sync") is True
        self.live = {}
        for each in charter["grants"]:
            values = each["values"]
            signer = None
            if each["kind"] == "sigv4":
                signer = SigV4Signer(values["key_id"], values["service"], values["region"], values["bucket"])
            live = LiveGrant(each["id"], read(Grant, each["grant"]), each["placeholder"].encode(), each["kind"], signer)
            self.live[live.id] = GrantValue(live, values, each["until"])
            if charter["resumed"] and live.kind in _STATIC:
                self.watch_for(live, base64.b64decode(values["value"]))  # an earlier door may have sent it
        self.ours = frozenset(one.host for one in scope.grants if not one.foreign)
        self.identities = charter["identities"]

    # -- grants -----------------------------------------------------------------------------------------------

    def list_active_grants(self) -> list[LiveGrant]:
        for live in [live for live in self.live.values() if live.is_over()]:
            self.revoke(live, "it expired")
        return [live.live_grant for live in self.live.values() if live.live_grant.grant.step in ("", self.step)]

    async def get_value(self, one: LiveGrant) -> bytes:
        """Return the granted value, and scrub it from responses from now on."""
        live = self.live[one.id]
        if one.kind in _STATIC:
            value = base64.b64decode(live.values["value"])
        else:
            async with live.minting:
                value = await self.outside.mint(self.desk, live)
        self.watch_for(one, value)
        return value

    def watch_for(self, one: LiveGrant, value: bytes) -> None:
        """Scrub a value from responses from now on."""
        for secret in list_scrubbed_secrets(one.id, one.grant.secret, one.kind, value):
            self.scrubber.add(secret)

    def get_issued(self, host: str, port: int) -> Issued | None:
        """Return the tokens that a host issued, or `None` if it never had a grant: its tokens are not replaced.

        Once a grant of the host has ended, its tokens are forgotten: any of them may be of a session of that grant.
        """
        active = {(self.scopes, one.grant.secret) for one in self.list_active_grants() if one.grant.host == host}
        found = self.issued.get((host, port))
        granted = [one.live_grant.grant for one in self.live.values() if one.live_grant.grant.host == host]
        if found is None and not granted:
            return None
        fields = {name for grant in granted for name in grant.fields}
        if found is None or not found.grants <= active or not fields <= {*found.fields}:
            fields |= {*found.fields} if found is not None else set()
            found = self.issued[host, port] = Issued(host, tuple(sorted(fields)), self.scrubber.add)
        found.grants |= active
        return found

    def revoke(self, live: GrantValue, why: str) -> None:
        if self.live.pop(live.live_grant.id, None) is not None:
            self.outside.note(Revoked(self.desk, live.live_grant.grant.secret, why))

    def refuse(self, refusal: Refusal, host: str) -> ExchangeError:
        """Report a request that no honest desk sends, and return the error that refuses it."""
        for sign in refusal.signs:
            self.alarms.report(Alarm(self.desk, sign.what, sign.secret, host, refusal.reason))
        return ExchangeError(403, refusal.reason)

    def make_identity_headers(self, meant: Target) -> list[tuple[bytes, bytes]]:
        """Return a header with a signed statement of which desk and step sends the request, for hosts that want it."""
        if not self.identities:
            return []
        here = (meant.host, meant.port, meant.scheme)
        grants = [one for one in self.list_active_grants() if (one.grant.host, one.grant.port, "https") == here]
        return [(IDENTITY, self.identities[one.id].encode()) for one in grants if one.id in self.identities][:1]

    def report_leak(self, ids: set[str], host: str) -> None:
        """Report secrets that came back in a response to a request that did not carry them, and revoke their grants."""
        for live in [live for id, live in self.live.items() if id in ids]:
            name = live.live_grant.grant.secret
            self.outside.note(
                Alarm(
                    self.desk, "leak", name, host, "the secret came back in a response to a request that did not use it"
                )
            )
            self.revoke(live, "the secret came back in a response to a request that did not use it")

    def change(self, message: Mapping[str, Any]) -> None:
        """Apply a change: step, scope, more rules, ended grants or a full journal. Most of them cut connections."""
        match message.get("verb"):
            case "proven":
                self.end_canary()
                return  # it admitted nothing but canaries
            case "allow":
                for text in message["rules"]:
                    self.policy = self.policy.widen(parse_rule(text))
                return  # earlier admissions remain valid
            case "step":
                self.step = str(message["step"])
                self.policy = self.policy.with_step(self.step)
                self.identities = message["identities"]
            case "revoke":
                gone = str(message.get("grant", ""))
                self.live = {id: one for id, one in self.live.items() if gone not in ("", one.live_grant.grant.secret)}
            case "scope":
                self.hold(message["charter"])
            case "full":
                self.shut = (
                    "this desk has used up its share of the journal, which records every request; open another desk"
                )
        self.hang_up()

    def end_canary(self) -> None:
        tried = {id for id, one in self.live.items() if one.live_grant.grant.host == canary.HOST}
        self.live = {id: one for id, one in self.live.items() if id not in tried}
        if set().union(*self.scrubber.spelt.values()) <= tried:
            self.scrubber = Scrubber()  # otherwise every response to this desk would be searched for a canary
            self.issued.clear()
        rules, ceiling = (
            [rule for rule in rules if rule != canary.RULE] for rules in (self.policy.rules, self.policy.ceiling)
        )
        self.policy = Policy(rules, self.step, ceiling, self.policy.approved, self.policy.anywhere)

    def hang_up(self) -> None:
        """Cut every connection and end every approval request: the permission they depend on has ended."""
        self.epoch += 1
        for number, (mark, answer) in self.questions.items():
            if not answer.done():
                answer.set_result(False)
                self.outside.note(Answered(self.desk, number, mark, "expired", ""))
        for cut in list(self.cut):
            cut()

    def close(self) -> None:
        """Refuse every request from now on."""
        self.live.clear()
        self.shut = "this desk was burnt"
        self.alarms.end_window()
        self.hang_up()

    @asynccontextmanager
    async def reserve_decoder(self, coding: bytes) -> AsyncIterator[None]:
        """Reserve memory to decode a body, for a block; wait while the desk uses all it may use."""
        if not needs_large_decoder(coding):
            yield
            return
        try:
            async with asyncio.timeout(DECODER_WAIT_S):
                await self.decoders.acquire()
        except TimeoutError:
            raise DecodersBusyError(
                f"{DECODERS} bodies in Brotli or zstd are still being transferred for this desk, which is the limit; "
                "transfer fewer at once, or use gzip"
            ) from None
        try:
            yield
        finally:
            self.decoders.release()

    async def confirm(self, event: RequestAdmitted) -> None:
        """If the server requires it, wait until it has the record of a request; raise `UnconfirmedError` otherwise.

        Requests of the self-test to the canary's host stay in the door, and the server may not know of the desk yet.
        Other requests wait during the self-test, too: the programs of a live fork run before it.
        """
        if self.sync and event.host != canary.HOST:
            await self.outside.confirm(event)

    # -- budgets ----------------------------------------------------------------------------------------------

    def get_budget(self, rule: Rule) -> RuleBudget:
        found = self.budgets.get(rule)
        if found is None:
            found = self.budgets[rule] = RuleBudget(rule)
        return found

    # -- approval requests ------------------------------------------------------------------------------------

    async def ask(
        self, rule: Rule, target: Target | None, reason: str = "", size: int = -1
    ) -> Literal["approved", "refused", "busy"]:
        """Request an approval of this rule from a person outside, and wait for it; exactly this rule is approved."""
        now = time.monotonic()
        self.question_times = [at for at in self.question_times if now - at < 3600]
        if len(self.questions) >= ASKS or len(self.question_times) >= ASKS_AN_HOUR:
            return "busy"
        self.question_times.append(now)
        number, mark = secrets.token_hex(4), compute_digest(rule)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.questions[number] = (mark, answer)
        method, path = (target.method, format_target(target)) if target else (",".join(rule.methods), rule.path)
        words = "".join(c if c.isascii() and c.isprintable() else "?" for c in reason[:REASON])
        facts = (mark, rule_text(rule), method, rule.host, path, self.approval_seconds)
        event = Asked(self.desk, number, *facts, words, size)
        self.outside.note(event)
        try:
            async with asyncio.timeout(self.approval_seconds):
                return "approved" if await answer else "refused"
        except TimeoutError:
            self.outside.note(Answered(self.desk, number, mark, "expired", ""))
            return "refused"
        finally:
            del self.questions[number]

    def answer(self, number: str, mark: str, approved: bool) -> None:
        expected, waiting = self.questions.get(number, ("", None))
        if waiting is not None and not waiting.done() and secrets.compare_digest(expected, mark):
            waiting.set_result(approved)


def format_target(target: Target) -> str:
    """Return the path and query as the deciding person sees them, shortened to a readable length."""
    text = f"{target.path}?{target.query}" if target.query else target.path
    return text if len(text) <= REASON else f"{text[:REASON]}… ({len(text)} characters)"
