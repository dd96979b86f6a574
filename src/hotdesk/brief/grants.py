"""Grants as text: which secret is used at which host, and where in a request.

    NAME@host[:port] [bearer|basic|header=NAME[:BEFORE:AFTER]|cookie=NAME|query=NAME:METHOD:/path
        |form=FIELD:METHOD:/path|json=FIELD:METHOD:/path [swap]]… [env=VAR] [step=S] [seconds=600] [field=NAME]…
        [foreign] [identity] [allow-header=NAME]… [allow-field=NAME]…

`swap` applies to the place before it. Characters of this grammar in a name are written as %XX.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_args
from urllib.parse import quote, unquote

from hotdesk.brief.data import MOST_PLACES, Grant, PlaceKind, SecretPlace
from hotdesk.brief.names import bracket_ipv6, canonicalize_host, is_address
from hotdesk.brief.paths import LONGEST_GLOB, canonicalize_path
from hotdesk.brief.remedy import RemedyError
from hotdesk.brief.rules import (
    METHOD_SHAPE,
    NEVER,
    STEP_SHAPE,
    AuthorityFaultError,
    add_example,
    check_choice,
    check_number,
    check_port,
    read_part,
    split_words,
)
from hotdesk.errors import BriefError, make_printable

EXAMPLE = "erp-token@erp.example.test bearer"
_PORT_EXAMPLE = "erp-token@erp.example.test:8443 bearer"
_BEGINNING = "the grant does not begin with NAME@host[:port]"
_SECRET_SHAPE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_TOKEN_SHAPE = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_AROUND_SHAPE = re.compile(r"[\x20-\x7e]{0,200}")
_VARIABLE_SHAPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HOST_SHAPE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([1-9][0-9]{0,4}))?")
MOST_SECONDS = 31 * 24 * 3600.0
MOST_FIELDS = 32
PINNED = ("query", "form", "json")
"""Places where a secret could be published, which are therefore restricted to one method and path."""
FRAMING = frozenset(
    """
    accept-encoding connection content-encoding content-length content-type cookie expect forwarded host http2-settings
    keep-alive proxy-authenticate proxy-authorization proxy-connection range set-cookie te trailer transfer-encoding
    upgrade via x-forwarded-for x-forwarded-host x-forwarded-proto
    """.split()
)
"""Headers that the door writes itself or that delimit messages."""
LISTS = {"field": "fields", "allow-header": "allow_headers", "allow-field": "allow_fields"}
"""Options that may be repeated, and the fields they add to."""
_OPTIONS = (
    "bearer, basic, header=, cookie=, query=, form=, json=, swap, env=, step=, seconds=, field=, foreign, identity, "
    "allow-header=, allow-field="
)
_EXAMPLES = {"env": "env=ERP_TOKEN", "step": "step=fetch", "seconds": "seconds=600"}
SYSTEM = frozenset("PATH HOME USER LOGNAME SHELL PWD LANG TERM IFS BASH_ENV PYTHONPATH NODE_OPTIONS".split())


def parse_grant(text: str) -> Grant:
    try:
        return _canonicalize_grant(read_words(split_words(text)))
    except ValueError as e:
        port = isinstance(e, AuthorityFaultError) and ":" in text and "://" not in text
        example = _PORT_EXAMPLE if port else EXAMPLE
        raise BriefError(f"grant {make_printable(text[:200])!r}: {add_example(e, repr(example))}") from None


def check_grant(grant: Grant) -> Grant:
    try:
        return _canonicalize_grant(grant)
    except ValueError as e:
        raise BriefError(
            f"grant of {make_printable(str(grant.secret)[:80])!r}: {add_example(e, repr(EXAMPLE))}"
        ) from None


def grant_text(grant: Grant) -> str:
    words = [f"{grant.secret}@{bracket_ipv6(grant.host)}{f':{grant.port}' if grant.port != 443 else ''}"]
    words += [_format_place(place) for place in grant.places]
    words += [f"env={grant.env}"] if grant.env else []
    words += [f"step={grant.step}"] if grant.step else []
    words += [f"seconds={grant.seconds:.15g}"] if grant.seconds is not None else []
    words += [f"field={_encode_name(name)}" for name in grant.fields]
    words += [name for name, on in (("foreign", grant.foreign), ("identity", grant.identity)) if on]
    words += [f"allow-header={_encode_name(name)}" for name in grant.allow_headers]
    words += [f"allow-field={_encode_name(name)}" for name in grant.allow_fields]
    return " ".join(words)


def _format_place(place: SecretPlace) -> str:
    name = f"={_encode_name(place.name)}" if place.name else ""
    pinned = f":{place.method}:{place.path}" if place.kind in PINNED else ""
    if place.before or place.after:
        pinned = f":{_encode_name(place.before)}:{_encode_name(place.after)}"
    return f"{place.kind}{name}{pinned}{' swap' if place.swap and place.kind not in ('form', 'json') else ''}"


def _encode_name(name: str) -> str:
    return quote(name, safe="!#$&'*+.^_`|~[]-")


def read_words(words: list[str]) -> Grant:
    name, at, authority = words[0].partition("@") if words else ("", "", "")
    found = _HOST_SHAPE.fullmatch(authority)
    if not at or not found:
        raise AuthorityFaultError(f"{_BEGINNING} (the name of a secret and its host)")
    grant = Grant(secret=name, host=found[1], port=int(found[2] or 443))
    used: set[str] = set()
    for position, word in enumerate(words[1:], 1):
        grant = _with_word(grant, word, words[position - 1], used)
    return grant


def _with_word(grant: Grant, word: str, before: str, used: set[str]) -> Grant:
    name, equals, value = word.partition("=")
    if name in get_args(PlaceKind):
        return replace(grant, places=(*grant.places, _read_place(name, value)))
    if word == "swap":
        if not grant.places or before.partition("=")[0] not in get_args(PlaceKind):
            raise RemedyError("`swap` must follow a place for the secret, as in `bearer swap`")
        return replace(grant, places=(*grant.places[:-1], replace(grant.places[-1], swap=True)))
    if equals and (listed := LISTS.get(name)):
        added = (*getattr(grant, listed), unquote(value, errors="strict"))
        return replace(grant, **{listed: added})  # type: ignore[arg-type]
    if name in used:
        raise RemedyError(f"{name!r} is given twice; remove one")
    if bool(equals) != (name in ("env", "step", "seconds")) or (equals and not value):
        raise _make_option_error(word)
    used.add(name)
    return replace(grant, **read_option(name, value))  # type: ignore[arg-type]


def read_option(name: str, value: str) -> dict[str, object]:
    match name:
        case "env" | "step":
            return {name: value}
        case "seconds":
            try:
                return {name: float(value)}
            except ValueError:
                shown = make_printable(value[:80])
                raise RemedyError(f"seconds is {shown!r}; it must be a number, as in seconds=600") from None
        case "foreign" | "identity":
            return {name: True}
    raise _make_option_error(name)


def _make_option_error(word: str) -> ValueError:
    name = word.partition("=")[0]
    if name in _EXAMPLES:
        return ValueError(f"{name} needs a value, as in {_EXAMPLES[name]}")
    if name in ("foreign", "identity"):
        return ValueError(f"{name} takes no value; write `{name}`")
    return ValueError(f"{make_printable(word[:80])!r} is not an option of a grant; the options are {_OPTIONS}")


def _read_place(kind: str, value: str) -> SecretPlace:
    name, _, pinned = value.partition(":") if kind in (*PINNED, "header") else (value, "", "")
    method, _, path = pinned.partition(":")
    if kind == "header":
        if value.count(":") not in (0, 2):
            raise RemedyError("the text before and after a secret is written as header=NAME:BEFORE:AFTER")
        name, before, after = (unquote(each, errors="strict") for each in (name, method, path))
        return SecretPlace("header", name, before=before, after=after)
    name = unquote(name, errors="strict")
    return SecretPlace(kind=kind, name=name, method=method, path=path, swap=kind in ("form", "json"))  # type: ignore[arg-type]


def _canonicalize_grant(grant: Grant) -> Grant:
    if not isinstance(grant.secret, str) or not _SECRET_SHAPE.fullmatch(grant.secret):
        raise ValueError("the name of a secret must have 1 to 64 lower-case letters, digits and `-`")
    if grant.port is None:
        raise AuthorityFaultError("port is missing; it must be a number from 1 to 65535")
    check_port(grant.port)
    check_number("seconds", grant.seconds, float, 0.001, MOST_SECONDS)
    for name, flag in (("field foreign", grant.foreign), ("field identity", grant.identity)):
        check_choice(name, flag, (True, False))
    if not isinstance(grant.env, str) or (grant.env and not _is_variable(grant.env)):
        raise RemedyError("env must be a variable name that the system does not use itself, as in env=ERP_TOKEN")
    if not isinstance(grant.step, str) or not STEP_SHAPE.fullmatch(grant.step):
        raise ValueError("step must be a name of at most 64 letters, digits, `.`, `_` and `-`")
    return replace(
        grant,
        host=read_part("host", grant.host, _parse_exact_host),
        seconds=None if grant.seconds is None else float(f"{float(grant.seconds):.15g}"),
        places=_check_places(grant.places),
        fields=_check_fields(grant.fields),
        allow_headers=_check_headers(grant.allow_headers),
        allow_fields=_check_fields(grant.allow_fields),
    )


def _is_variable(name: str) -> bool:
    reserved = name in SYSTEM or name.startswith("LD_") or name.upper().endswith("_PROXY")
    return _VARIABLE_SHAPE.fullmatch(name) is not None and not reserved


def _parse_exact_host(text: str) -> str:
    if "*" in text or "/" in text:
        raise ValueError("is a pattern; a secret needs one exact host name")
    return canonicalize_host(text if text.startswith("[") or not is_address(text) else bracket_ipv6(text))


def _check_fields(names: object) -> tuple[str, ...]:
    if not isinstance(names, tuple) or len(names) > MOST_FIELDS:
        raise ValueError(f"field= and allow-field= take at most {MOST_FIELDS} names each")
    for name in names:
        _check_name(name)
    return tuple(dict.fromkeys(names))


def _check_places(places: object) -> tuple[SecretPlace, ...]:
    """Validate the places; refuse the same place twice."""
    if not isinstance(places, tuple) or len(places) > MOST_PLACES:
        raise ValueError(f"places must be a list of at most {MOST_PLACES} places for the secret, such as bearer")
    done = tuple(_check_place(place) for place in places)
    if len({(place.kind, place.name.lower(), place.method, place.path) for place in done}) != len(done):
        raise RemedyError("the same place for the secret is given twice; remove one")
    return done


def _check_place(place: object) -> SecretPlace:
    if not isinstance(place, SecretPlace):
        raise ValueError("each place for the secret must be a SecretPlace, such as SecretPlace('bearer')")
    check_choice("place", place.kind, get_args(PlaceKind))
    check_choice("swap", place.swap, (True, False))
    _check_around(place)
    if place.kind in PINNED:
        return _check_pin(place)
    if (place.method, place.path) != ("", ""):
        raise ValueError(f"{place.kind} is sent with every request; it takes no method and no path")
    if place.kind in ("bearer", "basic"):
        if place.name != "":
            raise ValueError(f"{place.kind} takes no name")
        return place
    if not isinstance(place.name, str) or not _TOKEN_SHAPE.fullmatch(place.name):
        raise RemedyError(
            f"the place {place.kind} needs the {place.kind}'s name (letters, digits and `-`), as in "
            f"{place.kind}={'session' if place.kind == 'cookie' else 'X-Api-Key'}"
        )
    if place.kind == "header" and _is_framing(place.name):
        raise RemedyError(
            f"the header {place.name} is reserved for HTTP itself; use another header, or cookie= for a cookie"
        )
    return place


def _check_around(place: SecretPlace) -> None:
    """Refuse text around a secret that is not valid in a header."""
    for text in (place.before, place.after):
        if (
            not isinstance(text, str)
            or not _AROUND_SHAPE.fullmatch(text)
            or (text and (place.kind != "header" or place.swap))
        ):
            raise RemedyError(
                "text before or after a secret must be printable ASCII of at most 200 characters, and is allowed only "
                "with `header=` and without `swap`, as in header=Authorization:Token%20:"
            )


def _is_framing(name: str) -> bool:
    """Return whether a header is reserved for the door."""
    return name.lower() in FRAMING or name.lower().startswith("proxy-")


def _check_headers(names: object) -> tuple[str, ...]:
    """Return the headers a desk may send, without duplicates and in lower case."""
    if not isinstance(names, tuple) or len(names) > MOST_FIELDS:
        raise ValueError(f"allow-header takes at most {MOST_FIELDS} header names")
    for name in names:
        if not isinstance(name, str) or not _TOKEN_SHAPE.fullmatch(name):
            raise RemedyError("allow-header needs a header name, as in allow-header=X-Tenant")
        if _is_framing(name):
            raise RemedyError(f"allow-header cannot allow {name}, which is reserved for HTTP itself; remove it")
        if name.lower() == "authorization":
            raise RemedyError(
                f"allow-header cannot allow {name}, which carries credentials; add `foreign` to let the desk send its "
                "own credentials"
            )
    return tuple(dict.fromkeys(name.lower().replace("_", "-") for name in names))


def _check_pin(place: SecretPlace) -> SecretPlace:
    _check_name(place.name)
    has_method = isinstance(place.method, str) and METHOD_SHAPE.fullmatch(place.method) and place.method not in NEVER
    if not has_method or place.path == "":
        raise RemedyError(f"{place.kind} needs a method and a path, as in {place.kind}=password:POST:/login")
    if not isinstance(place.path, str) or "*" in place.path or len(place.path) > LONGEST_GLOB:
        raise RemedyError(
            f"{place.kind} needs one exact path, as in {place.kind}=password:POST:/login; a pattern would let the desk "
            "choose where the secret appears"
        )
    return replace(
        place, path=read_part("path", place.path, canonicalize_path), swap=place.swap or place.kind in ("form", "json")
    )


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 128 or not name.isprintable():
        raise RemedyError(
            "a field's name is missing or invalid: write 1 to 128 printable characters, as in form=password"
        )
