"""Egress rules as text and as tables: one grammar for the command line, briefs and the operator's ceiling.

    [allow|deny|ask|tunnel] [read|write|METHOD,…] [scheme://]host[:port][/path][?name=value&…]
        [up=1M] [down=50M] [rate=10] [private] [step=NAME]

Without a method, `allow` and `ask` apply to reading and `deny` to everything. A network is written in brackets, which
an IPv4 network may omit: `[10.0.0.0/8]:8080`. A `?` with nothing after it means that no parameter may be sent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from urllib.parse import unquote_plus

from hotdesk.brief import paths
from hotdesk.brief.data import ANY, READ, Rule, Verdict
from hotdesk.brief.names import canonicalize_pattern
from hotdesk.brief.remedy import RemedyError
from hotdesk.config import parse_size
from hotdesk.errors import BriefError, make_printable

EXAMPLE = "GET example.test/data/*"
_PORT_EXAMPLE = "GET example.test:8443/data/*"
MAX_LINE_CHARS = 1 << 17
"""Maximum characters of one line; no valid rule or grant is longer."""
_EXAMPLES = {"up": "up=1M", "down": "down=1M", "rate": "rate=0.5", "step": "step=fetch"}
VERDICTS: dict[str, Verdict] = {"allow": "allow", "deny": "deny", "ask": "ask", "tunnel": "allow"}
WORDS = frozenset({*VERDICTS, "read", "write", "private"})
"""Keywords of the grammar, which cannot be a host."""
NEVER = frozenset({"CONNECT", "TRACE", "TRACK"})
"""Methods that are never admitted: they bypass the door's rules, or return what it inserted."""
METHOD_SHAPE = re.compile(r"(?=.{1,32}\Z)[A-Z]+(?:-[A-Z]+)*")
_METHODS_SHAPE = re.compile(r"[A-Z-]+(?:,[A-Z-]+)*")
_NETWORK_SHAPE = re.compile(r"\A([A-Za-z]+://)?([0-9]+(?:\.[0-9]+){3}/[0-9]{1,2})(?=[:/?]|\Z)")
"""A network without brackets."""
_TARGET_SHAPE = re.compile(
    r"(?:(?P<scheme>[A-Za-z]+)://)?(?P<host>\[[^\[\]]*\]|[^/?:\[\]]*)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[^?]*)?(?:\?(?P<query>.*))?"
)
_PORT_SHAPE = re.compile(r"(?:[A-Za-z]+://)?(?:\[[^\[\]]*\]|[^/?:\[\]]+):([^/?:]*)(?=[/?]|\Z)")
"""The beginning of a target, with whatever stands in the place of its port."""
_PARAMETER_SHAPE = re.compile(r"(?:[A-Za-z0-9._~!$'()*+,:@\[\]|{}/?^-]|%[0-9A-Fa-f]{2})*")
STEP_SHAPE = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,63})?")
PORTS = {"http": 80, "https": 443}
MOST_BYTES = 1 << 50
_MOST_RATE = 10_000.0
_MOST_PARAMETERS = 32
_LONGEST_PARAMETER = 512
UNITS = (("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))


class AuthorityFaultError(ValueError):
    """A fault in `host:port`: the example that is its remedy has a port."""


def parse_rule(text: str) -> Rule:
    try:
        return _canonicalize_rule(read_words(split_words(text)))
    except (ValueError, BriefError) as e:
        example = _PORT_EXAMPLE if _is_about_port(e) else EXAMPLE
        raise BriefError(f"rule {make_printable(text[:200])!r}: {add_example(e, repr(example))}") from None


def parse_rule_table(table: Mapping[str, object]) -> Rule:
    """Read a rule from a table of a brief: `{host = "example.test", methods = ["GET"], path = "/data/*"}`."""
    try:
        return _canonicalize_rule(read_table(table))
    except (ValueError, BriefError) as e:
        shown = make_printable(repr(dict(table))[:200])
        port = ", port = 8443" if _is_about_port(e) else ""
        example = f'{{host = "example.test"{port}, path = "/data/*"}}'
        raise BriefError(f"rule {shown}: {add_example(e, example)}") from None


def check_rule(rule: Rule) -> Rule:
    try:
        return _canonicalize_rule(rule)
    except ValueError as e:
        shown, example = make_printable(str(rule.host)[:200]), _PORT_EXAMPLE if _is_about_port(e) else EXAMPLE
        raise BriefError(f"rule for {shown!r}: {add_example(e, repr(example))}") from None


def add_example(fault: Exception, example: str) -> str:
    """Return a fault's text with an example, unless the text has a remedy of its own."""
    if isinstance(fault, RemedyError | BriefError):
        return str(fault)
    is_encoding = isinstance(fault, UnicodeDecodeError)
    text = "a name is not UTF-8 after percent-decoding" if is_encoding else str(fault)
    return f"{text}; write it like {example}"


def _is_about_port(error: Exception) -> bool:
    return isinstance(error, AuthorityFaultError)


def rule_text(rule: Rule) -> str:
    words: list[str] = ["tunnel"] if rule.tunnel else [rule.verdict] if rule.verdict != "allow" else []
    if not rule.tunnel and not (rule.verdict == "deny" and rule.methods == ANY):
        words.append({READ: "read", ANY: "write"}.get(rule.methods) or ",".join(rule.methods))
    words.append(format_target(rule))
    words += [
        f"{name}={format_size(size)}" for name, size in (("up", rule.up), ("down", rule.down)) if size is not None
    ]
    words += [f"rate={rule.rate:.15g}"] if rule.rate is not None else []
    words += ["private"] if rule.private else []
    return " ".join([*words, f"step={rule.step}"] if rule.step else words)


def format_target(rule: Rule) -> str:
    plain = rule.path == "/**" and rule.query is None
    wrapped = ":" in rule.host or "/" in rule.host or bool(_NETWORK_SHAPE.match(f"{rule.host}{rule.path}"))
    host = f"[{rule.host}]" if wrapped else rule.host
    query = "" if rule.query is None else "?" + "&".join(f"{name}={value}" for name, value in rule.query)
    scheme = f"{rule.scheme}://" if rule.scheme else ""
    return f"{scheme}{host}{f':{rule.port}' if rule.port else ''}{'' if plain else rule.path}{query}"


def format_size(size: int) -> str:
    return next((f"{size // unit}{name}" for name, unit in UNITS if size % unit == 0), str(size))


def split_words(text: str) -> list[str]:
    """Split a line into words. A line that is too long is refused: cut off, it could mean something else."""
    if len(text) > MAX_LINE_CHARS:
        raise ValueError(f"the line is longer than {MAX_LINE_CHARS} characters")
    return text.split()


def read_words(words: list[str]) -> Rule:
    rest = list(words)
    verdict = rest.pop(0) if rest and rest[0] in VERDICTS else "allow"
    methods: tuple[str, ...] = READ if verdict != "deny" else ANY
    if rest and verdict != "tunnel" and (rest[0] in ("read", "write") or _METHODS_SHAPE.fullmatch(rest[0])):
        methods = _read_methods(rest.pop(0), verdict)
    if not rest:
        raise ValueError("the host is missing")
    rule = _read_target(rest.pop(0))
    rule = replace(rule, verdict=VERDICTS[verdict], tunnel=verdict == "tunnel", methods=methods)
    try:
        options = _read_options(rest)
    except ValueError as e:
        note = "" if "." in rule.host or ":" in rule.host else f" ({rule.host!r} was read as the host)"
        if not note:
            raise
        raise ValueError(f"{e}{note}") from None
    return replace(rule, **options)  # type: ignore[arg-type]


def _read_methods(word: str, verdict: str) -> tuple[str, ...]:
    if word == "write" and verdict == "deny":
        raise ValueError("`deny write` is ambiguous: leave `write` out to deny everything, or name the methods")
    return {"read": READ, "write": ANY}.get(word) or tuple(word.split(","))


def _read_target(text: str) -> Rule:
    found = _TARGET_SHAPE.fullmatch(_NETWORK_SHAPE.sub(r"\1[\2]", text))
    if not found and (port := _PORT_SHAPE.match(text)):
        check_port(port[1])
    if not found:
        raise ValueError(
            f"{make_printable(text[:200])!r} does not have the form [scheme://]host[:port][/path][?name=value]"
        )
    if found["scheme"] and found["scheme"].lower() not in PORTS:
        raise ValueError(f"the scheme {found['scheme']!r} is neither http nor https")
    return Rule(
        host=found["host"],
        scheme=found["scheme"].lower() if found["scheme"] else None,  # type: ignore[arg-type]
        port=int(found["port"]) if found["port"] else None,
        path=found["path"] or "/**",
        query=None if found["query"] is None else _read_query(found["query"]),
    )


def _read_query(text: str) -> tuple[tuple[str, str], ...]:
    """Read the parameters of a rule; one without `=` may have any value."""
    parts = [part.partition("=") for part in text.split("&")] if text else []
    return tuple((name, value if equals else "*") for name, equals, value in parts)


def _read_options(words: list[str]) -> dict[str, object]:
    options: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name in options:
            raise RemedyError(f"{name!r} is given twice; remove one")
        options[name] = read_option(name, value if equals else None)
    return options


def read_option(name: str, value: str | None) -> object:
    match name, value:
        case "private", None:
            return True
        case (("up" | "down"), str()):
            return parse_size(value)
        case "rate", str():
            try:
                return float(value)
            except ValueError:
                raise RemedyError(
                    f"rate is {make_printable(value[:80])!r}; it must be a number, as in rate=0.5"
                ) from None
        case "step", str() if value:
            return value
    if value is None and (name in ("read", "write") or name.isupper()):
        raise RemedyError(
            f"{make_printable(name[:80])!r} is in the wrong place; write read, write or methods such as POST,PUT "
            "before the host"
        )
    if name == "private":
        raise RemedyError("private takes no value; write `private`")
    if name in _EXAMPLES:
        raise RemedyError(f"{name} needs a value, as in {_EXAMPLES[name]}")
    raise RemedyError(
        f"{make_printable(name[:80])!r} is not an option of a rule; the options are up=, down=, rate=, private, step="
    )


def read_table(table: Mapping[str, object]) -> Rule:
    names = {field.name for field in fields(Rule)}
    if unknown := sorted(str(name) for name in table if name not in names):
        listed = ", ".join(field.name for field in fields(Rule))
        raise RemedyError(f"{unknown[0]!r} is not a field of a rule; the fields are {listed}")
    values = dict(table)
    for name in ("up", "down"):
        if isinstance(size := values.get(name), str):
            values[name] = parse_size(size)
    if isinstance(query := values.get("query"), Mapping):
        values["query"] = tuple(query.items())
    values["methods"] = _read_table_methods(values.get("methods"), values.get("verdict"))
    if not isinstance(values.get("host"), str):
        raise ValueError("the host is missing")
    return Rule(**values)  # type: ignore[arg-type]


def _read_table_methods(value: object, verdict: object) -> object:
    """Read the methods of a table: a keyword or a list."""
    if value is None:
        return ANY if verdict == "deny" else READ
    if isinstance(value, str):
        return _read_methods(value, str(verdict))
    return tuple(value) if isinstance(value, list) else value


def _canonicalize_rule(rule: Rule) -> Rule:
    if not isinstance(rule.host, str) or rule.host in WORDS:
        raise ValueError("the host is missing, or is a keyword of the rule grammar such as read or deny")
    check_choice("verdict", rule.verdict, ("allow", "deny", "ask"))
    check_choice("scheme", rule.scheme, (None, "http", "https"))
    for name, flag in (("field tunnel", rule.tunnel), ("field private", rule.private)):
        check_choice(name, flag, (True, False))
    check_port(rule.port)
    check_number("up", rule.up, int, 1, MOST_BYTES)
    check_number("down", rule.down, int, 1, MOST_BYTES)
    check_number("rate", rule.rate, float, 0.001, _MOST_RATE)
    if not isinstance(rule.step, str) or not STEP_SHAPE.fullmatch(rule.step):
        raise ValueError("step must be a name of at most 64 letters, digits, `.`, `_` and `-`")
    rule = replace(
        rule,
        host=read_part("host", rule.host, canonicalize_pattern),
        port=None if rule.scheme and rule.port == PORTS[rule.scheme] else rule.port,
        rate=None if rule.rate is None else float(f"{float(rule.rate):.15g}"),
        methods=_canonicalize_methods(rule.methods),
        path=read_part("path", rule.path, paths.canonicalize_glob),
        query=None if rule.query is None else _canonicalize_query(rule.query),
    )
    return _check_combination(rule)


def _check_combination(rule: Rule) -> Rule:
    if rule.query == () and rule.verdict != "allow":
        raise ValueError("a deny or ask rule with an empty query would match nothing; leave the `?` out")
    if rule.tunnel and replace(rule, port=None, up=None, down=None, rate=None, private=False, step="") != Rule(
        rule.host, tunnel=True
    ):
        raise RemedyError(
            "a tunnel rule takes a host, a port and limits only, because the door cannot read the traffic; remove the "
            "scheme, method, path, query, deny or ask"
        )
    return rule


def _canonicalize_methods(methods: object) -> tuple[str, ...]:
    if methods == ANY:
        return ANY
    if not isinstance(methods, tuple) or not 0 < len(methods) <= 32:
        raise RemedyError("methods must be a list of 1 to 32 names; write `read`, `write`, or names such as GET")
    for method in methods:
        if not isinstance(method, str) or not METHOD_SHAPE.fullmatch(method):
            raise RemedyError(
                f"{make_printable(str(method)[:80])!r} is not an HTTP method; write `read`, `write`, or names "
                "such as GET"
            )
        if method in NEVER:
            raise ValueError(f"the door never admits the method {method}; name other methods, such as GET or POST")
    return tuple(sorted(set(methods)))


def _canonicalize_query(query: object) -> tuple[tuple[str, str], ...]:
    """Return the parameters sorted by name; refuse duplicates."""
    pairs = [pair for pair in query if isinstance(pair, tuple) and len(pair) == 2] if isinstance(query, tuple) else None
    if pairs is None or len(pairs) != len(query) or len(pairs) > _MOST_PARAMETERS:  # type: ignore[arg-type]
        raise ValueError(f"the query must be a list of at most {_MOST_PARAMETERS} names and values")
    for text in (text for pair in pairs for text in pair):
        if not isinstance(text, str) or len(text) > _LONGEST_PARAMETER or not _PARAMETER_SHAPE.fullmatch(text):
            raise ValueError(
                f"a query parameter has more than {_LONGEST_PARAMETER} characters, or a character that must be written "
                "as %XX"
            )
    if any("*" in name or not name for name, _ in pairs):
        raise ValueError("the name of a query parameter is empty or has a `*`, which only values may have")
    names = [read_part("query", name, lambda text: unquote_plus(text, errors="strict")) for name, _ in pairs]
    if len(set(names)) != len(names):
        raise RemedyError("a query parameter is given twice; remove one")
    for _, value in pairs:
        read_part("query", value, lambda text: paths.compile_value(text).pattern)
    return tuple(sorted(pairs))


def read_part(what: str, text: object, read: paths.Reader) -> str:
    if not isinstance(text, str):
        raise ValueError(f"the {what} must be a text")
    try:
        return read(text)
    except UnicodeDecodeError:
        raise ValueError(f"the {what} is not UTF-8 after percent-decoding") from None
    except RemedyError as e:
        raise RemedyError(f"the {what} {e}") from None
    except ValueError as e:
        raise ValueError(f"the {what} {e}") from None


def check_choice(what: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuse a value that is not one of the choices; `True` does not equal 1."""
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in choices):
        listed = " or ".join(str(choice) for choice in choices if choice is not None)
        raise RemedyError(f"the {what} is {make_printable(str(value)[:80])!r}; it must be {listed}")


def check_port(value: object) -> None:
    try:
        check_number("port", value, int, 1, 65535)
    except ValueError as e:
        raise AuthorityFaultError(str(e)) from None


def check_number(what: str, value: object, kind: type, least: float, most: float) -> None:
    """Refuse a value that is neither `None` nor a number within bounds."""
    if value is None:
        return
    right = isinstance(value, (int, kind)) and not isinstance(value, bool)
    if not right or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type,operator]
        raise RemedyError(
            f"{what} is {make_printable(str(value)[:80])!r}; it must be a number from {least:.15g} to {most:.15g}"
        )
