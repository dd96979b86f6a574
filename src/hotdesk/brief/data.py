"""The data of a scope: rules, grants, places of secrets. No behaviour."""

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
"""Default methods of an allow or ask rule."""
ANY = ("*",)
"""The methods of `write`: all of them."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One egress rule. Its defaults are the most restrictive."""

    host: str
    """A name in lower-case ASCII, `*.` and a name for all its subdomains, an address, or a network in CIDR notation."""
    verdict: Verdict = "allow"
    scheme: Scheme | None = None
    """`None` for both schemes, each at its default port."""
    port: int | None = None
    """`None` for 443 with https and 80 with http."""
    methods: tuple[str, ...] = READ
    path: str = "/**"
    """A glob: `*` matches anything but a slash, `**` anything."""
    query: tuple[tuple[str, str], ...] | None = None
    """The only parameters that may be sent, each with a glob for its value; `None` for any."""
    up: int | None = None
    """Maximum bytes of all requests together, including request heads."""
    down: int | None = None
    """Maximum bytes of all responses together."""
    rate: float | None = None
    """Requests per second, averaged over ten seconds."""
    tunnel: bool = False
    """Whether TLS is passed through unread: no secrets, methods or paths. Marked wherever it is shown."""
    private: bool = False
    """Whether this host may resolve to private addresses. A rule for an address or a network always allows them."""
    step: str = ""
    """The step it applies to, or `""` for all steps."""


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """A place in a request at which a secret is inserted."""

    kind: PlaceKind
    name: str = ""
    """Name of the header, cookie, parameter or field; for `json` a path such as `auth.password`."""
    method: str = ""
    path: str = ""
    """For `query`, `form` and `json`: the method and the exact path of the requests that get the secret."""
    swap: bool = False
    """Whether it only replaces the desk's placeholder, as always in `form` and `json`, or is added to every request."""
    before: str = ""
    after: str = ""
    """For `header`: the text before and after the secret, as in `token SECRET`."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to use one secret of the vault at one host over https."""

    secret: str
    """Its name in the vault."""
    host: str
    """One exact host: a wildcard is not allowed."""
    port: int = 443
    places: Annotated[tuple[SecretPlace, ...], Length(MOST_PLACES)] = ()
    """Empty for the default of the secret's kind: `bearer` for a token, `basic` for user and password."""
    env: str = ""
    """Variable in the desk that holds the placeholder."""
    step: str = ""
    """The step it applies to, or `""` for all steps."""
    seconds: float | None = None
    """Maximum lifetime in seconds."""
    fields: tuple[str, ...] = ()
    """Additional fields of JSON responses whose values the desk gets as placeholders."""
    foreign: bool = False
    """Whether the desk may also send credentials of its own to this host."""
    identity: bool = False
    """Whether this host gets a signed statement of the requesting desk and step."""
    allow_headers: tuple[str, ...] = ()
    """Additional request headers that the desk may send to this host."""
    allow_fields: tuple[str, ...] = ()
    """Parameters and body fields that the desk may send to this host although they have the names of credentials."""


@dataclass(frozen=True, slots=True)
class WorkloadToken:
    """A signed statement of a desk's identity (JWT-SVID), made for each use."""

    name: str
    """Name of the token in its program."""
    audience: str
    """The intended recipient."""
    issuer: str
    """URL at which the verification key is published."""


@dataclass(frozen=True, slots=True)
class EgressProxy:
    """A SOCKS5 proxy through which admitted requests are sent. Its password is in `Scope.values`."""

    host: str
    port: int
    username: str = ""
    tls: bool = False
    """Whether the connection to the proxy uses TLS."""
    server_name: str = ""
    """The name in the proxy's certificate, or `""` for `host`."""
    ca: str = ""
    """PEM certificate authorities to trust for the proxy, or `""` for those of this machine."""


PROXY_PASSWORD = "egress-proxy"  # noqa: S105 - the name of a value
"""Name of the proxy's password in `Scope.values`."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything a desk may reach, and the secrets it may use. An empty scope allows nothing."""

    rules: Annotated[tuple[Rule, ...], Length(MOST_RULES)] = ()
    grants: Annotated[tuple[Grant, ...], Length(MOST_GRANTS)] = ()
    names: Annotated[Mapping[str, str], Length(MOST_NAMES)] = field(default_factory=dict)
    """Host names with an upstream, such as `erp.internal` with `127.0.0.1:8443`. Operator-only."""
    may_ask: bool = True
    """Whether the desk may request more access at `http://door.local/ask`."""
    anywhere: bool = False
    """Whether every internet host that no rule denies may be reached. Operator-only: a brief cannot set it."""
    tokens: Annotated[Mapping[str, WorkloadToken], Length(MOST_GRANTS)] = field(default_factory=dict)
    """Workload tokens by the names that grants use."""
    proxy: EgressProxy | None = None
    """The proxy to connect through, or `None` to connect directly."""
    values: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Secrets that the caller supplies, by the names its grants use; others come from the vault.

    They are in no journal and not part of the scope's digest.
    """


CLOSED = Scope(may_ask=False)
