"""The data of a scope: rules, places, grants. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.strict import Length

Verdict: TypeAlias = Literal["allow", "deny", "ask"]
Scheme: TypeAlias = Literal["http", "https"]
PlaceKind: TypeAlias = Literal["bearer", "basic", "header", "cookie", "query", "form", "json"]

MOST_RULES = 1000
MOST_GRANTS = 100
MOST_NAMES = 100
MOST_PLACES = 16
READ = ("GET", "HEAD")
"""What a rule admits unless it says more."""
ANY = ("*",)
"""What `write` admits: every method."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of where a desk may go. The defaults are the narrow ones."""

    host: str
    """A name in lower-case ASCII, `*.` and a name for everything below it, an address, or a network written as CIDR."""
    verdict: Verdict = "allow"
    scheme: Scheme | None = None
    """None: either, each at its own port."""
    port: int | None = None
    """None: 443 for https, 80 for http."""
    methods: tuple[str, ...] = READ
    path: str = "/**"
    """A glob: `*` is anything but a slash, `**` anything."""
    query: tuple[tuple[str, str], ...] | None = None
    """Parameters that may be sent, each with a glob for its value; None: any."""
    up: int | None = None
    """Bytes of requests in all, heads included."""
    down: int | None = None
    """Bytes of answers in all."""
    rate: float | None = None
    """Requests a second, averaged over ten."""
    tunnel: bool = False
    """Pass TLS on unread: no injection, no method, no path. Flagged wherever it shows."""
    private: bool = False
    """Addresses of private networks may be dialled for this host. An address or network written as such always may."""
    step: str = ""
    """The step it holds for; empty: all of them."""


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """The place in a request where a secret is put."""

    kind: PlaceKind
    name: str = ""
    """The header, cookie, parameter or field; for `json` a path such as `auth.password`."""
    method: str = ""
    path: str = ""
    """For `query`, `form` and `json`: the one method and the exact path at which it is put in."""
    swap: bool = False
    """Put in only where the desk wrote the placeholder; else attached to every request. Always for `form`, `json`."""
    before: str = ""
    after: str = ""
    """For `header`: text around the secret, as in `token SECRET`."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One secret of the vault, for one host over https."""

    secret: str
    """Its name in the vault."""
    host: str
    """Exact: a wildcard carries no secret."""
    port: int = 443
    places: Annotated[tuple[SecretPlace, ...], Length(MOST_PLACES)] = ()
    """Empty: where its kind goes by nature (a token as `bearer`, user and password as `basic`)."""
    env: str = ""
    """The variable inside that holds its placeholder."""
    step: str = ""
    """The step it lives for; empty: all of them."""
    seconds: float | None = None
    """How long it lives at most."""
    fields: tuple[str, ...] = ()
    """Fields of JSON answers, beside the usual ones, whose values stay outside as placeholders."""
    foreign: bool = False
    """Whether the desk may also bring credentials of its own to this host."""
    identity: bool = False
    """Whether this host gets a signed statement of the desk and step that ask."""
    allow_headers: tuple[str, ...] = ()
    """Request headers, beside the ordinary ones, that the desk may send to this host."""
    allow_fields: tuple[str, ...] = ()
    """Parameters and body fields that the desk may send to this host although their names are those of credentials."""


@dataclass(frozen=True, slots=True)
class WorkloadToken:
    """A signed statement of which desk this is, made for each use (JWT-SVID)."""

    name: str
    """What its program calls it."""
    audience: str
    """For whom it is."""
    issuer: str
    """Where the key that verifies it is published."""


@dataclass(frozen=True, slots=True)
class EgressProxy:
    """A SOCKS5 proxy that connects a desk's requests once they are admitted; its password is one of `Scope.values`."""

    host: str
    port: int
    username: str = ""
    tls: bool = False
    """Whether the proxy itself is spoken to by TLS."""
    server_name: str = ""
    """The name its certificate must have; empty: `host`."""
    ca: str = ""
    """Authorities to trust for it, in PEM; empty: those of this machine."""


PROXY_PASSWORD = "egress-proxy"  # noqa: S105 - the name of a value
"""What the password of a scope's proxy is called among its values."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything a desk may reach, with the secrets it may use. Empty: nothing."""

    rules: Annotated[tuple[Rule, ...], Length(MOST_RULES)] = ()
    grants: Annotated[tuple[Grant, ...], Length(MOST_GRANTS)] = ()
    names: Annotated[Mapping[str, str], Length(MOST_NAMES)] = field(default_factory=dict)
    """Names that lead to an upstream of the operator's choice: `erp.internal` to `127.0.0.1:8443`. Operator-only."""
    may_ask: bool = True
    """Whether the desk may ask for more at `http://door.local/ask`."""
    anywhere: bool = False
    """Whether any host of the internet may be reached that no rule denies. No brief can say so: operator-only."""
    tokens: Annotated[Mapping[str, WorkloadToken], Length(MOST_GRANTS)] = field(default_factory=dict)
    """Tokens that are made for each use, by the names its grants use."""
    proxy: EgressProxy | None = None
    """What connects instead of the door itself."""
    values: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Secrets whoever gives the scope brings along, by the names its grants use; others are the vault's.

    No journal has them, nor a scope's digest.
    """


CLOSED = Scope(may_ask=False)
