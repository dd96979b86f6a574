"""Secrets in: which go with a request, where they are put, and what the desk may not send beside them. Pure.

A desk holds placeholders. The door puts the value in on its own host, over https, at the places the grant names, and
refuses a request that has a placeholder anywhere else: it never leaves, and is an alarm. Values are never asked for
before it is known where they go.

What breaks placeholders: a client that hashes or encrypts what it is given (a password digested by a page, SRP, PAKE);
one that signs requests with it (HMAC, OAuth 1, JWT assertions; SigV4 is signed anew, see `signature`); a login that
hands the browser from host to host, as a grant is for one. There the value is not in the request to be put in.

What is looked at for placeholders: path, query, every header name and value, as they are, percent-decoded, and inside
`Basic`; bodies as they are, and unpacked where they are compressed. Not: escapes inside JSON other than where a secret
may be put in, base64 elsewhere, other charsets. A placeholder that gets through is worth nothing where it arrives.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias
from urllib.parse import quote, quote_plus, unquote_to_bytes

from hotdesk.brief import Grant, Place
from hotdesk.door.encodings import Decoder, Unreadable, decoder

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
Kind: TypeAlias = Literal["token", "basic", "oauth2", "totp", "command"]
Slot: TypeAlias = tuple[str, str]
"""A place in a head: `header`, `cookie` or `query`, and its name, folded."""

PREFIX = b"hotdesk-secret-"
PLACEHOLDER = re.compile(rb"hotdesk-secret-[a-z0-9][a-z0-9-]{0,63}-[a-z2-7]{26}")
LONGEST = 106
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
BODY_LIMIT = 1 << 20
BODY_TOO_LARGE = (
    "a secret is put into bodies of at most 1 MiB; send a smaller one, or in a header if the grant allows it"
)
DEPTH = 32
IDENTITY = b"x-hotdesk-identity"
"""Ours alone: whatever a desk sends under this name is removed."""
NO_UPGRADE = "a secret went with this request, and what follows an upgrade cannot be looked through"
USER = b"x-access-token"
"""The user a token goes with in `Basic` where the place names none."""
WITHHELD = frozenset({b"range", b"if-range", b"accept-encoding", b"sec-websocket-extensions"})
"""What lets an answer come in parts or packings that cannot be scrubbed."""
CREDENTIAL_HEADERS = frozenset(
    b"authorization proxy-authorization authentication x-authorization x-auth x-auth-token x-auth-key x-auth-email"
    b" x-access-token x-api-key x-api-token api-key apikey api-token x-apikey x-token token x-session-token"
    b" private-token job-token deploy-token x-gitlab-token x-github-token x-amz-security-token x-goog-api-key"
    b" x-goog-iam-authorization-token x-vault-token x-consul-token x-ms-token x-functions-key ocp-apim-subscription-key"
    b" x-shopify-access-token x-figma-token x-jwt-assertion x-id-token x-user-token x-client-secret dd-api-key"
    b" dd-application-key x-rapidapi-key x-subscription-token circle-token fastly-key x-nexus-api-key x-nuget-apikey"
    b" x-jfrog-art-api x-sentry-auth x-parse-session-token xi-api-key".split()
)
CREDENTIAL_PARAMETERS = frozenset(
    "accesstoken refreshtoken idtoken oauthtoken oauthsignature authtoken authorization auth token jwt apikey apitoken"
    " key appkey privatetoken jobtoken clientsecret secret password passwd pwd sig signature xamzsignature"
    " xamzcredential xamzsecuritytoken awsaccesskeyid xgoogsignature xgoogcredential googleaccessid sessionid"
    " subscriptionkey sharedaccesssignature".split()
)
"""By name, without case, `-` and `_`."""
CARRIED = re.compile(rb"(?:(?!(?i:basic) )[A-Za-z][A-Za-z0-9-]{0,30} )?(" + PLACEHOLDER.pattern + rb")")
BASIC = re.compile(rb"(?i:basic) +([A-Za-z0-9+/=_-]+)")
UNFIT = {"header": rb"[^\x20-\x7e\x80-\xff]|\A\Z", "cookie": rb"[^\x21-\x7e]|[;,\"\\]|\A\Z"}
FORM_TYPE = re.compile(rb"(?i)application/x-www-form-urlencoded(?:\s*;\s*charset=\"?utf-8\"?)?\s*")
JSON_TYPE = re.compile(rb"(?i)application/json(?:\s*;\s*charset=\"?utf-8\"?)?\s*")


@dataclass(frozen=True, slots=True)
class Held:
    """A live grant, as the door holds it: no value."""

    id: str
    grant: Grant
    placeholder: bytes
    kind: Kind = "token"

    @property
    def places(self) -> tuple[Place, ...]:
        """Say where it goes: as granted, or as its kind goes by nature. A one-time code goes nowhere by nature."""
        if self.grant.places or self.kind == "totp":
            return self.grant.places
        return (Place("basic" if self.kind == "basic" else "bearer"),)


class Returning(Protocol):
    """What an upstream issued before and the desk may send back: see `issued`."""

    def cookie(self, name: bytes, placeholder: bytes) -> bytes | None:
        """Give the value of a cookie of that name this placeholder stands for."""

    def bearer(self, placeholder: bytes) -> bytes | None:
        """Give the token this placeholder stands for."""

    def knows(self, name: bytes, value: bytes) -> bool:
        """Say whether the host set this very cookie itself."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way out, as the policy understood it."""

    scheme: str
    host: str
    port: int
    method: str
    path: str
    """The canonical path, as it is sent."""
    query: bytes
    """As it is sent, without the question mark."""
    headers: Headers
    """End to end: what `Connection` names is gone already."""


@dataclass(frozen=True, slots=True)
class Sign:
    """Something no honest desk does."""

    what: Literal["placeholder", "foreign"]
    secret: str
    """The name in the placeholder; empty for foreign credentials."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The request does not leave, and why."""

    reason: str
    signs: tuple[Sign, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """One secret at one place."""

    held: Held
    place: Place

    def __str__(self) -> str:
        kind, name = slot_of(self.place)
        return f"{self.held.grant.secret} in {kind} {name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done to a request."""

    uses: tuple[Use, ...] = ()
    """In the head."""
    body: tuple[Use, ...] = ()
    """Where the body has the placeholder. Not empty: the whole body is needed, up to `BODY_LIMIT`."""
    returned: tuple[tuple[Slot, bytes], ...] = ()
    """Values the host issued itself, and where they go back."""
    granted: bool = False
    """Whether the host has a live grant: its answers must be readable."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The request as it goes. Its repr is nobody's business."""

    headers: list[tuple[bytes, bytes]]
    query: bytes
    body: bytes
    used: tuple[str, ...]
    """Which secrets, and where."""
    ids: frozenset[str]

    def __repr__(self) -> str:
        return f"Sent(used={self.used!r})"


def make_placeholder(name: str) -> str:
    """Make what a desk holds in place of a secret: 130 random bits and its name."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:48].strip("-") or "unnamed"
    return f"{PREFIX.decode()}{plain}-{''.join(secrets.choice(ALPHABET) for _ in range(26))}"


def name_in(placeholder: bytes) -> str:
    """Read the name out of a placeholder."""
    return placeholder[len(PREFIX) : -27].decode()


def fold(name: bytes) -> bytes:
    """Bring a header's name to one form: some servers take `_` for `-`."""
    return name.strip().lower().replace(b"_", b"-")


def slot_of(place: Place) -> Slot:
    """Say where in a head a place is."""
    match place.kind:
        case "bearer" | "basic":
            return "header", "authorization"
        case "header":
            return "header", fold(place.name.encode()).decode()
    return place.kind, place.name


def plan(
    out: Outgoing,
    held: Collection[Held],
    issued: Returning | None = None,
    ours: Collection[str] = (),
    minting_named: bool = False,
) -> Plan | Refusal:
    """Decide which secrets go with a request, or why it may not go.

    `held` are the desk's live grants for any host; `ours` hosts at which it may bring no credentials of its own, beside
    those its grants say so of; `minting_named`: the rule names exactly this path, so that it may make new credentials.
    """
    here = [one for one in held if (one.grant.host, one.grant.port, "https") == (out.host, out.port, out.scheme)]
    sent = parts(out)
    uses = choose(here, out, sent)
    returned = give_back(sent, issued) if issued and out.scheme == "https" else {}
    taken = {slot: use.held.placeholder for slot, use in uses.items()}
    if refusal := stray(out, sent, taken, returned):
        return refusal
    uses = {slot: use for slot, use in uses.items() if slot not in returned}
    strict = out.host in ours or any(one.grant.host == out.host and not one.grant.foreign for one in held)
    if strict and (refusal := foreign(sent, uses, returned, issued)):
        return refusal
    if here and not minting_named and (what := minting(out.host, out.method, out.path, out.query)):
        return Refusal(f"this makes new credentials ({what}), which no grant covers; the rule must name the exact path")
    body = tuple(in_body(here, out))
    if body and any(fold(name) == b"content-encoding" and value.lower() != b"identity" for name, value in out.headers):
        return Refusal("a secret cannot be put into a compressed body; send it as it is")
    return Plan(tuple(uses.values()), body, tuple(returned.items()), bool(here))


def parts(out: Outgoing) -> list[tuple[Slot, bytes]]:
    """Take a head apart into what a secret may be put in: headers, cookies, parameters."""
    found: list[tuple[Slot, bytes]] = []
    for name, value in out.headers:
        folded = fold(name)
        if folded == b"cookie":
            found += [(("cookie", one.decode("latin-1")), held) for one, held in cookies(value)]
        elif folded != IDENTITY:
            found.append((("header", folded.decode("latin-1")), value.strip(b" \t")))
    return found + [(("query", name), value) for name, value, _ in parameters(out.query)]


def cookies(value: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Take a Cookie header apart."""
    for pair in value.split(b";"):
        name, _, held = pair.strip(b" \t").partition(b"=")
        if name or held:
            yield name, held


def parameters(query: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """Take a query apart: name decoded, value as it is, and the pair as it is."""
    for pair in query.split(b"&") if query else ():
        name, _, value = pair.partition(b"=")
        yield unquote_to_bytes(name.replace(b"+", b" ")).decode("latin-1"), value, pair


def carried(slot: Slot, value: bytes) -> bytes | None:
    """Give the placeholder a value is made of: alone; in a header also after a scheme, or as either side of `Basic`."""
    if slot[0] != "header":
        return value if PLACEHOLDER.fullmatch(value) else None
    if m := CARRIED.fullmatch(value):
        return m[1]
    sides = [side for side in basic(value) if PLACEHOLDER.search(side)]
    return sides[0] if len(sides) == 1 and PLACEHOLDER.fullmatch(sides[0]) else None


def basic(value: bytes) -> tuple[bytes, ...]:
    """Give user and password of `Basic`; nothing for anything else."""
    if not (m := BASIC.fullmatch(value)):
        return ()
    try:
        user, _, password = base64.b64decode(m[1].translate(bytes.maketrans(b"-_", b"+/")) + b"==").partition(b":")
    except binascii.Error:
        return ()
    return user, password


def choose(here: list[Held], out: Outgoing, sent: list[tuple[Slot, bytes]]) -> dict[Slot, Use]:
    """Choose for each place in the head the secret that goes there: the one the desk wrote, else the first attached."""
    chosen: dict[Slot, Use] = {}
    for one in here:
        for place in one.places:
            if place.kind in ("form", "json") or not pinned(place, out):
                continue
            slot = slot_of(place)
            written = [value for where, value in sent if where == slot and carried(slot, value) == one.placeholder]
            if written or (not place.swap and slot not in chosen):
                chosen[slot] = Use(one, place)
    return chosen


def pinned(place: Place, out: Outgoing) -> bool:
    """Say whether this is the method and path a place is for. What is not a header must name both."""
    if place.kind in ("query", "form", "json") and not (place.method and place.path):
        return False
    return place.method in ("", out.method) and place.path in ("", out.path)


def in_body(here: list[Held], out: Outgoing) -> Iterator[Use]:
    """Give what may be put into the body of this request."""
    types = [value for name, value in out.headers if fold(name) == b"content-type"]
    wanted = {"form": FORM_TYPE, "json": JSON_TYPE}
    for one in here:
        for place in one.places:
            pattern = wanted.get(place.kind)
            if pattern and pinned(place, out) and len(types) == 1 and pattern.fullmatch(types[0].strip(b" \t")):
                yield Use(one, place)


def give_back(sent: list[tuple[Slot, bytes]], issued: Returning) -> dict[Slot, bytes]:
    """Find what the host issued itself and gets back: its cookies under their names, its tokens as bearer."""
    found: dict[Slot, bytes] = {}
    for slot, value in sent:
        token = carried(slot, value)
        if token is None or slot in found:
            continue
        scheme = value[: -len(token)]
        real = None
        if slot[0] == "cookie":
            real = issued.cookie(slot[1].encode("latin-1"), token)
        elif slot == ("header", "authorization") and scheme.lower() in (b"bearer ", b"token "):
            real = issued.bearer(token)
        if real is not None:
            found[slot] = scheme + real
    return found


def stray(
    out: Outgoing, sent: list[tuple[Slot, bytes]], taken: Mapping[Slot, bytes], returned: Mapping[Slot, bytes]
) -> Refusal | None:
    """Refuse a request with a placeholder anywhere but once at the place it is for."""
    seen: set[Slot] = set()
    found: list[bytes] = []
    for slot, value in sent:
        mine = slot in returned or (slot in taken and carried(slot, value) == taken[slot])
        if not mine or slot in seen:
            found += placeholders(value)
        seen |= {slot} if mine else set()
    names = [name for name, _ in out.headers] + [name.encode("latin-1") for (_, name), _ in sent]
    for text in (*names, out.path.encode("utf-8", "replace"), out.method.encode("utf-8", "replace")):
        found += placeholders(text)
    if not found:
        return None
    if out.scheme != "https":
        return Refusal("a placeholder is exchanged for its secret over https only", signs_of(found))
    return Refusal("a placeholder is where its grant does not put the secret, or not live at all", signs_of(found))


def placeholders(value: bytes) -> list[bytes]:
    """Find placeholders in a value: as it is, percent-decoded, inside `Basic`."""
    texts = (value, *((unquote_to_bytes(value),) if b"%" in value else ()), *basic(value.strip()))
    return [m[0] for text in texts if PREFIX in text for m in PLACEHOLDER.finditer(text)]


def signs_of(found: Collection[bytes]) -> tuple[Sign, ...]:
    """Write alarms for placeholders, one for each name."""
    return tuple(Sign("placeholder", name) for name in sorted({name_in(one) for one in found}))


def foreign(
    sent: list[tuple[Slot, bytes]], uses: Mapping[Slot, Use], returned: Mapping[Slot, bytes], issued: Returning | None
) -> Refusal | None:
    """Refuse credentials the desk brings itself, where it goes as us."""
    for slot, value in sent:
        kind, name = slot
        if slot in returned or (slot in uses and carried(slot, value) == uses[slot].held.placeholder):
            continue
        if kind == "cookie" and (slot in uses or (issued and issued.knows(name.encode("latin-1"), value))):
            continue
        if is_credential(kind, name):
            reason = f"this host is used with the credentials granted for it; {kind} {name!a:.60} would bring others"
            return Refusal(reason, (Sign("foreign", ""),))
    return None


def is_credential(kind: str, name: str) -> bool:
    """Say whether a part of a head is a credential by its name."""
    if kind == "query":
        return re.sub(r"[-_.\[\]\s]", "", name.lower()) in CREDENTIAL_PARAMETERS
    return kind == "cookie" or name.encode("latin-1") in CREDENTIAL_HEADERS


def harden(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Ask for an answer that can be looked through: whole, and not packed."""
    kept = [(name, value) for name, value in headers if fold(name) not in WITHHELD]
    return [*kept, (b"Accept-Encoding", b"identity")]


def wanted(plan: Plan, body: bytes = b"") -> tuple[str, ...]:
    """List the grants whose values a plan needs, now that the body is known."""
    inside = [use.held.id for use in plan.body if use.held.placeholder in body]
    return tuple(dict.fromkeys([*(use.held.id for use in plan.uses), *inside]))


def apply(plan: Plan, out: Outgoing, body: bytes, values: Mapping[str, bytes]) -> Sent | Refusal:
    """Put the secrets in. `body` is empty where the plan does not need it."""
    headers = [(name, value) for name, value in out.headers if fold(name) != IDENTITY]
    query = out.query
    puts = list(plan.returned)
    puts += [(slot_of(use.place), spelt(use, out, values[use.held.id])) for use in plan.uses]
    for (kind, name), value in puts:
        if re.search(UNFIT.get(kind, rb"\A\Z"), value):
            return Refusal(f"the secret for {kind} {name} is empty or has characters that cannot be sent there")
        match kind:
            case "header":
                headers = [*(pair for pair in headers if fold(pair[0]).decode("latin-1") != name), (title(name), value)]
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
    return Sent(headers, query, changed, tuple(map(str, used)), frozenset(use.held.id for use in used))


def title(name: str) -> bytes:
    """Write a folded header name the usual way."""
    return name.title().encode("latin-1")


def alone(held: Held, value: bytes) -> bytes:
    """Give what a placeholder stands for by itself: of user and password the password."""
    return value.partition(b":")[2] if held.kind == "basic" else value


def spelt(use: Use, out: Outgoing, value: bytes) -> bytes:
    """Write a secret as its place in the head wants it; where the desk wrote the placeholder, as it did."""
    held, secret = use.held, alone(use.held, value)
    if use.place.kind == "bearer" and not use.place.swap:
        return b"Bearer " + secret
    kind, name = slot_of(use.place)
    written = next(
        (text for slot, text in parts(out) if slot == (kind, name) and carried(slot, text) == held.placeholder), b""
    )
    pair = basic(written)
    if use.place.kind == "basic" or (pair and use.place.swap):
        if held.kind == "basic":
            return b"Basic " + base64.b64encode(value)
        user, password = (secret if side == held.placeholder else side for side in pair or (USER, held.placeholder))
        user = use.place.name.encode() if use.place.name and not pair else user
        return b"Basic " + base64.b64encode(user + b":" + password)
    if use.place.swap and kind == "header":
        return written.replace(held.placeholder, secret)
    return b"Bearer " + secret if use.place.kind == "bearer" else secret


def with_cookie(headers: Headers, name: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    """Set one cookie, leaving the others as they are."""
    pairs = [pair for header, sent in headers if fold(header) == b"cookie" for pair in cookies(sent)]
    pairs = [*(pair for pair in pairs if pair[0] != name), (name, value)]
    others = [pair for pair in headers if fold(pair[0]) != b"cookie"]
    return [*others, (b"Cookie", b"; ".join(one + b"=" + held for one, held in pairs))]


def with_parameter(query: bytes, name: str, value: bytes) -> bytes:
    """Set one parameter, leaving the others as they are."""
    pairs = [(other, pair) for other, _, pair in parameters(query)]
    put = f"{quote(name, safe='')}={quote(value, safe='')}".encode()
    at = next((i for i, (other, _) in enumerate(pairs) if other == name), len(pairs))
    kept = [pair for other, pair in pairs[at:] if other != name]
    return b"&".join([*(pair for _, pair in pairs[:at]), put, *kept])


def swap_body(uses: Sequence[Use], body: bytes, values: Mapping[str, bytes]) -> tuple[bytes, list[Use]] | Refusal:
    """Put secrets where a body has their placeholders as whole fields; the rest stays as it is, byte for byte."""
    plainly = PREFIX in body
    if not plainly and not (uses and (b"%" in body or b"\\u" in body)):
        return body, []
    if len(body) > BODY_LIMIT:
        return Refusal(BODY_TOO_LARGE)
    try:
        found = fields(uses[0].place.kind if uses else "", body)
    except (ValueError, RecursionError) as e:
        reason = f"a secret is put into a body that reads one way only, and this one does not: {e}"[:200]
        return Refusal(reason) if plainly else (body, [])
    done: list[Use] = []
    for name, text in found:
        use = next((use for use in uses if use.place.name == name and use.held.placeholder == text), None)
        if use is None or body.count(text) != 1:
            reason = "the body has a placeholder where its grant does not put the secret"
            return Refusal(reason, signs_of(PLACEHOLDER.findall(text)))
        done.append(use)
    return put_in(body, done, values)


def put_in(body: bytes, uses: list[Use], values: Mapping[str, bytes]) -> tuple[bytes, list[Use]] | Refusal:
    """Replace placeholders, each of which is there once."""
    for use in uses:
        secret = alone(use.held, values[use.held.id])
        try:
            quoted = quote_plus(secret) if use.place.kind == "form" else json.dumps(secret.decode())[1:-1]
        except UnicodeDecodeError:
            return Refusal(f"the secret for {use.place.kind} {use.place.name} is not text, as JSON is")
        body = body.replace(use.held.placeholder, quoted.encode())
    return body, uses


def fields(kind: str, body: bytes) -> list[tuple[str, bytes]]:
    """Give the fields of a body that have a placeholder; `ValueError` where it can be read in two ways."""
    match kind:
        case "form":
            found = form_fields(body)
        case "json":
            found = json_fields(body)
        case _:
            found = iter([("", body)])
    return [(name, text) for name, text in found if PLACEHOLDER.search(text)]


def form_fields(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Give the fields of a form, and under no name their names."""
    if re.search(rb"[^\x21-\x7e]", body):
        raise ValueError("a form of other than printable characters")
    pairs = [(name, unquote_to_bytes(value.replace(b"+", b" "))) for name, value, _ in parameters(body)]
    names = [name for name, _ in pairs]
    for name, value in pairs:
        if PREFIX in value and names.count(name) > 1:
            raise ValueError("a field is there twice")
        yield name, value
        yield "", name.encode("latin-1")


def json_fields(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Give the strings of a JSON document by path, and under no path its keys."""
    tree = json.loads(body.decode(), object_pairs_hook=once_each, parse_constant=no_constant)
    for path, text in strings(tree, (), 0):
        yield path, text.encode("utf-8", "replace")


def once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object of its members; `ValueError` where one is there twice."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a member is there twice")
    return made


def no_constant(text: str) -> object:
    """Refuse what is not JSON though some read it."""
    raise ValueError(f"{text} is no JSON")


def strings(node: object, path: tuple[str, ...], depth: int) -> Iterator[tuple[str, str]]:
    """Give every string of a document, with where it is; keys are nowhere."""
    if depth > DEPTH:
        raise ValueError("too deep")
    match node:
        case str():
            yield ".".join(path), node
        case dict():
            for key, inner in node.items():
                yield "", key
                yield from strings(inner, (*path, key.replace(".", "\0")), depth + 1)
        case list():
            for i, inner in enumerate(node):
                yield from strings(inner, (*path, str(i)), depth + 1)
        case _:
            return


class Watcher:
    """A body on its way out that no secret goes into: no placeholder leaves in it whole."""

    def __init__(self, reader: Decoder | None = None) -> None:
        self.found: bytes | None = None
        """The placeholder that was there. The request is to be broken off: nothing more comes out of here."""
        self.held = b""
        self.inside = Watcher() if reader else None
        self.reader = reader

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; give what may go on."""
        if self.reader and self.inside:
            for piece in self.reader.feed(data):
                self.inside.feed(piece)
                self.found = self.found or self.inside.found
        data = self.held + data
        if PREFIX in data and (m := PLACEHOLDER.search(data)):
            self.found = self.found or m[0]
        if self.found:
            self.held = b""
            return b""
        cut = begun(data)
        self.held = data[cut:]
        return data[:cut]

    def finish(self) -> bytes:
        """End the body; give the rest."""
        if self.reader:
            self.reader.finish()
        rest, self.held = self.held, b""
        return rest


BEGUN = re.compile(rb"hotdesk-secret-[a-z0-9-]{0,90}\Z")


def begun(data: bytes) -> int:
    """Say where a placeholder may begin that the end cuts, or where the data ends."""
    tail = max(0, len(data) - LONGEST + 1)
    if m := BEGUN.search(data, tail):
        return m.start()
    sizes = range(min(len(PREFIX) - 1, len(data)), 0, -1)
    return next((len(data) - size for size in sizes if data.endswith(PREFIX[:size])), len(data))


def watcher(content_encoding: bytes, granted: bool, limit: int = 1 << 30) -> Watcher:
    """Make what watches a body; `Unreadable` where a granted host would be sent one nobody here can read.

    Compressed bodies are unpacked alongside; where that fails on the way `feed` raises `Unreadable`.
    """
    plain = content_encoding.strip().lower() in (b"", b"identity")
    reader = None if plain else decoder(content_encoding, limit)
    if granted and not plain and reader is None:
        raise Unreadable("a body in an encoding that cannot be looked into; send it as it is")
    return Watcher(reader)


ANY_HOST = ".*"
AWS = r"\.amazonaws\.com(\.cn)?"
GITHUB = r"api\.github\.com"
MINTING: tuple[tuple[str, str, str, str], ...] = (
    ("AWS STS", r"sts(\.[a-z0-9-]+)?" + AWS, "*", r"/.*"),
    ("AWS SSO", r"(oidc|portal\.sso)\.[a-z0-9-]+" + AWS, "*", r"/(token|federation/credentials).*"),
    ("AWS IAM", r"iam(\.[a-z0-9-]+)?" + AWS, "POST", r"/.*"),
    ("AWS IAM", r"iam(\.[a-z0-9-]+)?" + AWS, "GET", r".*[?&]action=(create|reset|upload|update).*"),
    ("AWS CodeArtifact", r"codeartifact\.[a-z0-9-]+" + AWS, "*", r"/v1/authorization-token.*"),
    ("GitHub tokens", GITHUB, "*", r"/(app/installations/.*/access_tokens|applications/.*/tokens?.*|authorizations.*)"),
    ("GitHub keys", GITHUB, "POST", r"/(user/(gpg_|ssh_signing_)?keys|repos/[^/]+/[^/]+/keys)"),
    ("GitHub runners", GITHUB, "POST", r"/.*/actions/runners/(registration-token|remove-token|generate-jitconfig)"),
    ("GitHub tokens", ANY_HOST, "*", r"/api/v3/(app/installations/.*/access_tokens|applications/.*|authorizations.*)"),
    ("GitHub keys", ANY_HOST, "POST", r"/api/v3/(.*/keys|.*/actions/runners/(registration|remove)-token)"),
    ("GitHub", r"github\.com", "*", r"/(login/oauth/access_token|settings/(tokens|personal-access|keys|apps).*)"),
    ("GitLab tokens", ANY_HOST, "*", r"/api/v4/.*(access|impersonation|deploy|feed)_tokens?(/.*)?"),
    ("GitLab keys", ANY_HOST, "POST", r"/api/v4/(.*/)?(deploy_keys|keys|runners|triggers)"),
    ("GitLab tokens", ANY_HOST, "*", r"/-/(user_settings|profile)/personal_access_tokens.*"),
    ("Gitea tokens", ANY_HOST, "POST", r"/api/v1/users/[^/]+/tokens"),
    ("Google tokens", r".*\.googleapis\.com", "*", r".*:(generateaccesstoken|generateidtoken|signblob|signjwt)"),
    ("Google keys", r".*\.googleapis\.com", "POST", r".*/(serviceaccounts/[^/]+/keys|hmackeys|keys)"),
    ("Google tokens", r"sts\.googleapis\.com", "*", r"/.*"),
    ("Kubernetes TokenRequest", ANY_HOST, "POST", r".*/api/v1/namespaces/[^/]+/serviceaccounts/[^/]+/token"),
    ("Kubernetes certificates", ANY_HOST, "POST", r".*/apis/certificates\.k8s\.io/[^/]+/certificatesigningrequests"),
    ("Azure keys", r"management\.azure\.com", "POST", r".*/(list|regenerate)[a-z]*(key|secret|credential|sas)[a-z]*"),
    ("Azure keys", r"graph\.microsoft\.com", "POST", r".*/(addpassword|addkey)"),
    ("Slack tokens", r"(.*\.)?slack\.com", "*", r"/api/(oauth\.|openid\.connect\.token|tooling\.tokens\.).*"),
    ("npm tokens", ANY_HOST, "*", r"/-/npm/v1/tokens(/.*)?"),
    ("PyPI tokens", ANY_HOST, "*", r"/_/oidc/.*"),
    ("Docker Hub tokens", r"hub\.docker\.com", "*", r"/v2/(access-tokens|users/login|auth/token).*"),
    ("Vault tokens", ANY_HOST, "*", r"/v1/(auth/token/create.*|sys/wrapping/.*|[^/]+/(creds|sts)/.*)"),
    ("Cloudflare tokens", r"api\.cloudflare\.com", "POST", r"/client/v4/(user|accounts/[^/]+)/tokens.*"),
    ("Stripe keys", r"api\.stripe\.com", "POST", r"/v1/ephemeral_keys"),
    ("OpenAI keys", r"api\.openai\.com", "POST", r"/v1/(organization/.*(api_keys|service_accounts)|realtime/.*)"),
)
"""Who makes new credentials: what, whose host, method, path with query, all in lower case."""


def minting(host: str, method: str, path: str, query: bytes) -> str | None:
    """Say what new credentials a request would make at a known provider."""
    decoded = unquote_to_bytes(path).decode("latin-1").lower().rstrip("/") or "/"
    asked = decoded + ("?" + unquote_to_bytes(query).decode("latin-1").lower() if query else "")
    for what, methods, pattern in minting_at(host):
        if methods in ("*", method) and (pattern.fullmatch(decoded) or (query and pattern.fullmatch(asked))):
            return what
    return None


@lru_cache(maxsize=256)
def minting_at(host: str) -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """List what makes new credentials at a host."""
    return tuple(
        (what, methods, re.compile(pattern, re.DOTALL))
        for what, hosts, methods, pattern in MINTING
        if re.fullmatch(hosts, host)
    )
