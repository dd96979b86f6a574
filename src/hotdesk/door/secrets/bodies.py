"""Insert secrets into bodies: as whole fields of a form or JSON document that can be read in one way only. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote_plus, unquote_to_bytes

from hotdesk.door.grant import LiveGrant, Refusal, SecretUse, get_bare_value, make_signs
from hotdesk.door.secrets.outgoing import Outgoing, fold, is_pinned, split_parameters
from hotdesk.door.secrets.placeholder import PLACEHOLDER, PREFIX
from hotdesk.strict import parse_json

BODY_LIMIT = 1 << 20
BODY_TOO_LARGE = (
    "the body is too large to insert a secret (limit 1 MiB); send a smaller body, or a header if the grant allows it"
)
BEGINNING = PREFIX.decode()
DEPTH = 32
MOST_FIELDS = 1000
MOST_LOOKED_AT = 5000
"""Limit on the escapes of a form, or the strings, members and elements of a JSON document."""
_ESCAPE = {"form": b"%", "json": b"\\u"}
"""The escape that can hide a placeholder in each kind of body."""
_FORM_TYPE = re.compile(rb"(?i)application/x-www-form-urlencoded(?:\s*;\s*charset=\"?utf-8\"?)?\s*")
_JSON_TYPE = re.compile(rb"(?i)application/json(?:\s*;\s*charset=\"?utf-8\"?)?\s*")


def find_body_uses(here: list[LiveGrant], out: Outgoing) -> Iterator[SecretUse]:
    types = [value for name, value in out.headers if fold(name) == b"content-type"]
    patterns = {"form": _FORM_TYPE, "json": _JSON_TYPE}
    for one in here:
        for place in one.places:
            pattern = patterns.get(place.kind)
            if pattern and is_pinned(place, out) and len(types) == 1 and pattern.fullmatch(types[0].strip(b" \t")):
                yield SecretUse(one, place)


def swap_body(
    uses: Sequence[SecretUse], body: bytes, values: Mapping[str, bytes]
) -> tuple[bytes, list[SecretUse]] | Refusal:
    """Insert secrets where a body has their placeholders as whole fields; all other bytes stay the same."""
    plainly = PREFIX in body
    kind = uses[0].place.kind if uses else ""
    if not plainly and not (uses and _ESCAPE[kind] in body):
        return body, []
    if len(body) > BODY_LIMIT:
        return Refusal(BODY_TOO_LARGE)
    if why := explain_excess(kind, body):
        return Refusal(why)
    try:
        found = _list_fields(kind, body)
    except (ValueError, RecursionError) as e:
        reason = f"a secret cannot be inserted into this body: {e}"[:200]
        return Refusal(reason) if plainly else (body, [])
    done: list[SecretUse] = []
    for name, text in found:
        use = next((use for use in uses if use.place.name == name and use.live_grant.placeholder == text), None)
        if use is None or body.count(text) != 1:
            reason = "the body has the placeholder of a secret in a place that its grant does not cover"
            return Refusal(reason, make_signs(PLACEHOLDER.findall(text)))
        done.append(use)
    return put_in(body, done, values)


def explain_excess(kind: str, body: bytes) -> str | None:
    """Explain why a body has too many fields to be parsed; it is not parsed for that, only counted."""
    match kind:
        case "form" if body.count(b"&") >= MOST_FIELDS or body.count(b"%") > MOST_LOOKED_AT:
            return f"a secret cannot be inserted into a form of over {MOST_FIELDS} fields or {MOST_LOOKED_AT} % escapes"
        case "json" if max(body.count(b'"') // 2, sum(map(body.count, (b",", b"[", b"{")))) > MOST_LOOKED_AT:
            return f"a secret cannot be inserted into JSON of over {MOST_LOOKED_AT} strings, members and elements"
    return None


def put_in(body: bytes, uses: list[SecretUse], values: Mapping[str, bytes]) -> tuple[bytes, list[SecretUse]] | Refusal:
    for use in uses:
        secret = get_bare_value(use.live_grant, values[use.live_grant.id])
        try:
            quoted = quote_plus(secret) if use.place.kind == "form" else json.dumps(secret.decode())[1:-1]
        except UnicodeDecodeError:
            where = f"the JSON field {use.place.name}"
            return Refusal(f"the secret for {where} is not UTF-8 text; ask the operator to correct the secret")
        body = body.replace(use.live_grant.placeholder, quoted.encode())
    return body, uses


def _list_fields(kind: str, body: bytes) -> list[tuple[str, bytes]]:
    """List the fields of a body that have a placeholder; raise `ValueError` if the body can be read in two ways."""
    match kind:
        case "form":
            found = _iterate_form_fields(body)
        case "json":
            found = _iterate_json_fields(body)
        case _:
            found = iter([("", body)])
    return [(name, text) for name, text in found if PLACEHOLDER.search(text)]


def _iterate_form_fields(body: bytes) -> Iterator[tuple[str, bytes]]:
    if re.search(rb"[^\x21-\x7e]", body):
        raise ValueError("its form has characters that must be written as %XX")
    pairs = [(name, unquote_to_bytes(value.replace(b"+", b" "))) for name, value, _ in split_parameters(body)]
    times = Counter(name for name, _ in pairs)
    for name, value in pairs:
        if PREFIX in value and times[name] > 1:
            raise ValueError("a field with the placeholder of a secret appears twice")
        yield name, value
        yield "", name.encode("latin-1")


def _iterate_json_fields(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the strings of a JSON document with their paths; keys have an empty path."""
    tree = parse_json(body, overflow=True)
    for path, text in _iterate_strings(tree, (), 0):
        yield path, text.encode("utf-8", "replace")


def _iterate_strings(node: object, path: tuple[str, ...], depth: int) -> Iterator[tuple[str, str]]:
    """Yield every string of a document that may contain a placeholder, with its path; keys have an empty path."""
    if depth > DEPTH:
        raise ValueError(f"its JSON is nested more than {DEPTH} levels deep")
    if isinstance(node, str) and BEGINNING in node:
        yield ".".join(path), node
    for key, inner in _iterate_members(node):
        if BEGINNING in key:
            yield "", key
        if BEGINNING in inner if isinstance(inner, str) else isinstance(inner, dict | list):
            yield from _iterate_strings(inner, (*path, key.replace(".", "\0")), depth + 1)


def _iterate_members(node: object) -> Iterator[tuple[str, object]]:
    if isinstance(node, dict):
        yield from node.items()
    elif isinstance(node, list):
        yield from ((str(i), inner) for i, inner in enumerate(node))
