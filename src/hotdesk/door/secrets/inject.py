"""Secrets in: which go with a request, where they are inserted, and which credentials the desk may not send. Pure.

A desk has placeholders. The door inserts the value at the grant's own host, over https, at the places the grant names.
It refuses a request that has a placeholder anywhere else: the request never leaves, and raises an alarm. A value is
requested only once its destination is known.

Placeholders do not work where the value itself is not in the request: a client that hashes or encrypts it (a password
digested by a page, SRP, PAKE) or signs with it (HMAC, OAuth 1, JWT assertions; SigV4 is signed again, see `signature`);
and a login that redirects the browser from host to host, because a grant is for one host.

Searched for placeholders: path, query, every header name and value, as they are, percent-decoded, and inside `Basic`;
bodies as they are, and decompressed. Not searched: escapes inside JSON at places where no secret may be inserted,
base64 elsewhere, other charsets. A placeholder that gets through is worth nothing where it arrives.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from urllib.parse import unquote_to_bytes

from hotdesk.dataclass import dataclass
from hotdesk.door.grant import LiveGrant, Refusal, Returning, SecretUse, get_bare_value, make_signs
from hotdesk.door.policy.minting import describe_minting
from hotdesk.door.secrets.bodies import find_body_uses, swap_body
from hotdesk.door.secrets.foreign_credentials import AllowedCredentials, collect_allowed, screen_credentials
from hotdesk.door.secrets.outgoing import (
    AUTHORIZATION,
    IDENTITY,
    Headers,
    Outgoing,
    Slot,
    explain_excess,
    extract_placeholder,
    find_placeholders,
    fold,
    format_header_name,
    get_slot,
    harden,
    is_pinned,
    parse_basic,
    split_head,
    with_cookie,
    with_parameter,
)
from hotdesk.door.secrets.placeholder import PREFIX
from hotdesk.door.secrets.signature import (
    PRESIGNED,
    compute_digest,
    explain_misdirection,
    explain_other_bucket,
    explain_unsignable,
    read_declared_digest,
    sign,
)

COMPRESSED = "a secret cannot be inserted into a compressed body; send the body uncompressed"
_COMPRESSED_SIGNED = "a request with a compressed body cannot be signed again; send the body uncompressed"
NO_UPGRADE = "this request uses a secret, so an upgrade is refused: the data after it cannot be checked for that secret"
USER = b"x-access-token"
"""The user that accompanies a token in `Basic` if the place names none."""
_UNFIT = {"header": rb"[^\x20-\x7e\x80-\xff]|\A\Z", "cookie": rb"[^\x21-\x7e]|[;,\"\\]|\A\Z"}


@dataclass(frozen=True, slots=True)
class InjectionPlan:
    """The changes to make to a request."""

    uses: tuple[SecretUse, ...] = ()
    """Secrets in the head."""
    body: tuple[SecretUse, ...] = ()
    """Secrets whose placeholders the body may have."""
    returned: tuple[tuple[Slot, bytes], ...] = ()
    """Values that the host itself issued, and where they go back."""
    granted: bool = False
    """Whether the host has a live grant, so that its response must be readable."""
    digest: bytes = b""
    """The digest to sign if the whole body is not needed; else empty."""
    signing: LiveGrant | None = None
    """The grant whose key signs the request, or `None`."""
    allowed: AllowedCredentials | None = None
    """What the desk may send beside ordinary headers, or `None` if it may send its own credentials to this host."""
    removed: frozenset[str] = frozenset()
    """Headers to remove, by their folded names."""

    @property
    def whole(self) -> bool:
        """Return whether the whole body is needed, up to `BODY_LIMIT`."""
        return bool(self.body) or (self.signing is not None and not self.digest)


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """The request as it is sent. Its repr hides its content."""

    headers: list[tuple[bytes, bytes]]
    query: bytes
    body: bytes
    used: tuple[str, ...]
    """The inserted secrets and their places."""
    ids: frozenset[str]

    def __repr__(self) -> str:
        return f"Sent(used={self.used!r})"


def plan_injection(
    out: Outgoing,
    grants: Collection[LiveGrant],
    issued: Returning | None = None,
    ours: Collection[str] = (),
    minting_named: bool = False,
) -> InjectionPlan | Refusal:
    """Decide which secrets go with a request, or why it must not be sent.

    `grants` are the desk's live grants for any host. `ours` are hosts to which it may send no credentials of its own,
    beside those whose grants forbid it. `minting_named` is whether the rule names exactly this path, so that the
    request may create credentials.
    """
    here = [one for one in grants if (one.grant.host, one.grant.port, "https") == (out.host, out.port, out.scheme)]
    if why := explain_excess(out):
        return Refusal(why)
    sent = split_head(out)
    uses = choose(here, out, sent)
    marked = _may_hold(out)
    returned = give_back(sent, issued) if issued and here and marked else {}  # a session ends with its grant
    if any(_is_presigned(slot, value, one) for one in here for slot, value in sent):
        return Refusal(PRESIGNED)
    if marked and (refusal := refuse_stray(out, sent, uses, returned)):
        return refusal
    uses = {slot: use for slot, use in uses.items() if slot not in returned}
    strict = out.host in ours or any(one.grant.host == out.host and not one.grant.foreign for one in grants)
    allowed = collect_allowed(out.host, grants) if strict else None
    removed = screen_credentials(sent, uses, returned, issued, allowed) if allowed is not None else frozenset()
    if isinstance(removed, Refusal):
        return removed
    if here and not minting_named and (what := describe_minting(out.host, out.method, out.path, out.query)):
        return Refusal(
            f"this request may create new credentials ({what}), which no grant covers; only a rule with the exact path "
            "admits it"
        )
    signing = next((use.live_grant for use in uses.values() if use.live_grant.kind == "sigv4"), None)
    plan = InjectionPlan(
        tuple(uses.values()),
        tuple(find_body_uses(here, out)),
        tuple(returned.items()),
        bool(here),
        signing=signing,
        allowed=allowed,
        removed=removed,
    )
    if plan.signing and (why := _explain_unsigned(plan.signing, out, sent)):
        return Refusal(why)
    signers = [one.signer for one in here if one.signer] if strict else []
    if signers and (why := explain_other_bucket(signers, out.host, out.path)):
        return Refusal(why)
    if plan.signing and plan.signing.signer and not plan.body:
        plan = replace(plan, digest=read_declared_digest(plan.signing.signer, out.headers))
    if plan.whole and any(fold(n) == b"content-encoding" and value.lower() != b"identity" for n, value in out.headers):
        return Refusal(COMPRESSED if plan.body else _COMPRESSED_SIGNED)
    return plan


def _is_presigned(slot: Slot, value: bytes, one: LiveGrant) -> bool:
    """Return whether a part of a head belongs to a URL that is presigned with a grant's placeholder."""
    if one.kind != "sigv4" or slot[0] != "query" or slot[1].lower() not in ("x-amz-credential", "awsaccesskeyid"):
        return False
    return unquote_to_bytes(value).startswith(one.placeholder)


def _explain_unsigned(one: LiveGrant, out: Outgoing, sent: list[tuple[Slot, bytes]]) -> str | None:
    assert one.signer is not None  # without a signer no request is signed with the grant
    authorization = next(value for slot, value in sent if one.is_written(slot, value))
    return explain_unsignable(out.headers, out.query) or explain_misdirection(
        one.signer, authorization, out.host, out.path, out.headers
    )


def choose(here: list[LiveGrant], out: Outgoing, sent: list[tuple[Slot, bytes]]) -> dict[Slot, SecretUse]:
    """Choose a secret for each place in the head: the one whose placeholder the desk wrote, else the first."""
    chosen: dict[Slot, SecretUse] = {}
    for one in here:
        for place in one.places:
            if place.kind in ("form", "json") or not is_pinned(place, out):
                continue
            slot = get_slot(place)
            written = [value for where, value in sent if where == slot and one.is_written(slot, value)]
            if written or (not place.swap and slot not in chosen):
                chosen[slot] = SecretUse(one, place)
    return chosen


def give_back(sent: list[tuple[Slot, bytes]], issued: Returning) -> dict[Slot, bytes]:
    """Find values that the host issued and gets back: cookies under their own names, tokens as bearer."""
    found: dict[Slot, bytes] = {}
    for slot, value in sent:
        token = extract_placeholder(slot, value)
        if token is None or slot in found:
            continue
        scheme = value[: -len(token)]
        real = None
        if slot[0] == "cookie":
            real = issued.find_cookie(slot[1].encode("latin-1"), token)
        elif slot == AUTHORIZATION and scheme.lower() in (b"bearer ", b"token "):
            real = issued.find_bearer(token)
        if real is not None:
            found[slot] = scheme + real
    return found


def refuse_stray(
    out: Outgoing, sent: list[tuple[Slot, bytes]], uses: Mapping[Slot, SecretUse], returned: Mapping[Slot, bytes]
) -> Refusal | None:
    """Refuse a request with a placeholder anywhere except once at the place it is for."""
    visited: set[Slot] = set()
    found: list[bytes] = []
    for slot, value in sent:
        mine = slot in returned or (slot in uses and uses[slot].live_grant.is_written(slot, value))
        if not mine or slot in visited:
            found += find_placeholders(value)
        visited |= {slot} if mine else set()
    names = [name for name, _ in out.headers] + [name.encode("latin-1") for (_, name), _ in sent]
    for text in (*names, out.path.encode("utf-8", "replace"), out.method.encode("utf-8", "replace")):
        found += find_placeholders(text)
    if not found:
        return None
    if out.scheme != "https":
        return Refusal("a placeholder is replaced by its secret only in https requests; use https", make_signs(found))
    return Refusal(
        "the request has a secret's placeholder twice, or in a place that no grant covers, or the grant has ended",
        make_signs(found),
    )


def _may_hold(out: Outgoing) -> bool:
    """Return whether a head may contain a placeholder: one cheap search, because most heads have none."""
    texts = [text for pair in out.headers for text in pair]
    whole = b"\n".join([*texts, out.query, out.path.encode("utf-8", "replace"), out.method.encode("utf-8", "replace")])
    return PREFIX in whole or b"%" in whole or b"basic" in whole.lower()


def list_needed_grants(plan: InjectionPlan, body: bytes = b"") -> tuple[str, ...]:
    inside = [use.live_grant.id for use in plan.body if use.live_grant.placeholder in body]
    return tuple(dict.fromkeys([*(use.live_grant.id for use in plan.uses), *inside]))


def apply(plan: InjectionPlan, out: Outgoing, body: bytes, values: Mapping[str, bytes]) -> OutgoingRequest | Refusal:
    """Insert the secrets, without signatures. `body` is empty if the plan does not need it."""
    dropped = {IDENTITY, *(name.encode("latin-1") for name in plan.removed)}
    headers = [(name, value) for name, value in out.headers if fold(name) not in dropped]
    query = out.query
    if plan.signing:
        headers = [pair for pair in headers if fold(pair[0]) != b"authorization"]
    puts = list(plan.returned)
    puts += [
        (get_slot(use.place), _spell_secret(use, out, values[use.live_grant.id]))
        for use in plan.uses
        if use.live_grant != plan.signing
    ]
    for (kind, name), value in puts:
        if re.search(_UNFIT.get(kind, rb"\A\Z"), value):
            why = "has characters that are not allowed there" if value else "is empty"
            return Refusal(f"the secret for {kind} {name} {why}; ask the operator to correct the secret")
        match kind:
            case "header":
                headers = [
                    *(pair for pair in headers if fold(pair[0]).decode("latin-1") != name),
                    (format_header_name(name), value),
                ]
            case "cookie":
                headers = with_cookie(headers, name.encode("latin-1"), value)
            case "query":
                query = with_parameter(query, name, value)
    done = swap_body(plan.body, body, values)
    if isinstance(done, Refusal):
        return done
    changed, inside = done
    used = (*plan.uses, *inside)
    headers = harden(headers) if plan.granted or plan.returned else headers
    return OutgoingRequest(headers, query, changed, tuple(map(str, used)), frozenset(use.live_grant.id for use in used))


def _spell_secret(use: SecretUse, out: Outgoing, value: bytes) -> bytes:
    """Format a secret for its place in the head, in the way the desk wrote the placeholder there if it did."""
    grant, secret = use.live_grant, get_bare_value(use.live_grant, value)
    if use.place.kind == "bearer" and not use.place.swap:
        return b"Bearer " + secret
    kind, name = get_slot(use.place)
    written = next(
        (text for slot, text in split_head(out) if slot == (kind, name) and grant.is_written(slot, text)), b""
    )
    pair = parse_basic(written)
    if use.place.kind == "basic" or (pair and use.place.swap):
        if grant.kind == "basic":
            return b"Basic " + base64.b64encode(value)
        user, password = (secret if side == grant.placeholder else side for side in pair or (USER, grant.placeholder))
        user = use.place.name.encode() if use.place.name and not pair else user
        return b"Basic " + base64.b64encode(user + b":" + password)
    if use.place.swap and kind == "header":
        return written.replace(grant.placeholder, secret)
    if use.place.kind == "bearer":
        return b"Bearer " + secret
    return use.place.before.encode() + secret + use.place.after.encode()


def sign_request(
    plan: InjectionPlan, out: Outgoing, sent: OutgoingRequest, headers: Headers, values: Mapping[str, bytes], at: str
) -> list[tuple[bytes, bytes]]:
    """Return the headers with the plan's signature. `headers` are all headers to sign; `at` as for `sign`."""
    assert plan.signing is not None
    assert plan.signing.signer is not None
    digest, secret = plan.digest or compute_digest(sent.body), values[plan.signing.id]
    return sign(plan.signing.signer, secret, out.method, out.path, sent.query, headers, digest, at)
