"""Secrets put into bodies: as whole fields of a form or a JSON document that reads one way only. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote_plus, unquote_to_bytes

from hotdesk.door.head import Outgoing, fold, parameters, pinned
from hotdesk.door.held import Held, Refusal, Use, alone, signs_of
from hotdesk.door.placeholder import PLACEHOLDER, PREFIX

BODY_LIMIT = 1 << 20
BODY_TOO_LARGE = (
    "a secret is put into bodies of at most 1 MiB; send a smaller one, or in a header if the grant allows it"
)
DEPTH = 32
FORM_TYPE = re.compile(rb"(?i)application/x-www-form-urlencoded(?:\s*;\s*charset=\"?utf-8\"?)?\s*")
JSON_TYPE = re.compile(rb"(?i)application/json(?:\s*;\s*charset=\"?utf-8\"?)?\s*")


def in_body(here: list[Held], out: Outgoing) -> Iterator[Use]:
    """Give what may be put into the body of this request."""
    types = [value for name, value in out.headers if fold(name) == b"content-type"]
    wanted = {"form": FORM_TYPE, "json": JSON_TYPE}
    for one in here:
        for place in one.places:
            pattern = wanted.get(place.kind)
            if pattern and pinned(place, out) and len(types) == 1 and pattern.fullmatch(types[0].strip(b" \t")):
                yield Use(one, place)


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
