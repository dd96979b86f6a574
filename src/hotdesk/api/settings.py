"""Settings of a server: how it listens and what it offers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, fields
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from hotdesk.api import quotas
from hotdesk.api.models import SHAPE as MODEL_SHAPE
from hotdesk.api.quotas import QuotaLimits
from hotdesk.api.walls import read_tenants
from hotdesk.brain.models import names
from hotdesk.brain.models.names import FORMS
from hotdesk.cluster.discovery import FORMS as NODE_FORMS
from hotdesk.cluster.discovery import parse_nodes
from hotdesk.config import GIB, SIZE, WALLS, count, make_choice_hint, make_number_hint, read_settings
from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import as_name
from hotdesk.desk.volume.paths import MAX_SIZE, MIN_SIZE
from hotdesk.errors import BriefError, make_printable
from hotdesk.strict import Otherwise, Range

PORT = 3700
Egress = Literal["deny", "packages", "open"]
_Shutdown = Literal["burn", "leave"]
_LogFormat = Literal["text", "json"]
NAME_SHAPE = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,62})(?:\.[a-z0-9](?:[a-z0-9-]{0,62}))*")
REGISTRY_SHAPE = re.compile(r"(?:https?://)?[a-z0-9](?:[a-z0-9.-]{0,252})(?::[0-9]{1,5})?")
_ORIGIN_SHAPE = re.compile(r"https?://[a-z0-9](?:[a-z0-9.-]{0,252})(?::[0-9]{1,5})?")
_MAX_LIFETIME_S = 86400.0
MAX_READY = 1000


@dataclass(frozen=True, slots=True)
class Serving:
    host: str = "127.0.0.1"
    """The address to listen on; other addresses than loopback need keys and TLS, and are served with TLS only."""
    port: int = PORT
    """The port without TLS, on loopback."""
    tls_port: int = 0
    """The port with TLS; 0 for none."""
    certificate: Path | None = None
    """The certificate chain for TLS, in PEM: for the server's names and `*.DOMAIN`."""
    private_key: Path | None = None
    acme: str = ""
    """The ACME directory that certifies `names`, in place of files; using it accepts the authority's terms."""
    acme_email: str = ""
    """The mail address for messages of the ACME authority."""
    acme_port: int = 80
    """The port at which the ACME authority checks challenges, by HTTP."""
    acme_ca: Path | None = None
    """Certificates to trust for the ACME authority itself, in addition to this machine's."""
    names: tuple[str, ...] = ()
    """Host names it answers to besides its own address: exact, lower-case, without a port."""
    domain: str = "localhost"
    """The domain of sandboxes' ports, as `PORT-ID.DOMAIN`; never a name at which people sign in."""
    egress: Egress = "packages"
    """What an E2B program may reach unless it requests something else."""
    shutdown: _Shutdown = "burn"
    """What happens to sandboxes when the server ends: they are burnt, or left for the next server, as if paused."""
    ready: Mapping[str, int] = field(default_factory=lambda: {"base": 2})
    """How many desks are kept ready for each tenant, by template."""
    longest: float = _MAX_LIFETIME_S
    """The maximum lifetime of a desk in seconds, whatever is requested."""
    mcp_image: str = "desktop"
    """The image of MCP clients' desks."""
    mcp_idle: float = 900.0
    """Seconds without a request after which an MCP client's session, or its desk, ends."""
    mcp_grace: float = 30.0
    """Seconds after which a session ends when its MCP client, which had a stream open, has disconnected."""
    requester_may_approve: bool = True
    """Whether the requester of a job may approve its questions."""
    templates: tuple[Path, ...] = ()
    """Folders of briefs for people to fill in; each brief is a folder with a `template.toml`."""
    models: tuple[str, ...] = ()
    """Models that jobs may use; the first is the default. Only these may have an address in their names.

    Empty: every model of a known provider, and no default.
    """
    log: _LogFormat = "text"
    """The format of the log on standard error."""
    quota: QuotaLimits = field(default_factory=QuotaLimits)
    """The tenants' quotas."""
    base_images: Mapping[str, str] = field(default_factory=dict)
    """Base images of templates by the name that builds use, such as `python:3.12`."""
    registries: tuple[str, ...] = ()
    """Registries from which templates may take base images, such as `registry.example.com`."""
    build_egress: Egress | Literal[""] = ""
    """What steps of a template build may reach; empty for the same as `egress`."""
    build_cache: int = 20 * GIB
    """Bytes of build layers that are cached for each tenant."""
    wall: str = ""
    """The weakest wall for all tenants; empty: `container`, or the strongest available if there are several tenants."""
    tenants: Mapping[str, str] = field(default_factory=dict)
    """Walls of tenants that have their own, in place of `wall`."""
    volume_size: int = 10 << 30
    """Bytes that a volume of an E2B program can hold; each volume counts in full against its tenant's disk quota."""
    access_log: bool = False
    """Whether each request to a sandbox's port is logged."""
    http2: bool = True
    """Whether clients may use HTTP/2 over TLS."""
    origins: tuple[str, ...] = ()
    """Origins of pages whose scripts may use E2B's API, such as `https://app.example.com`."""
    share_rate: float = 100.0
    """Requests a second through one share link; twice as many in a burst."""
    nodes: tuple[str, ...] = ()
    """Addresses of the nodes that lend this server all its desks; empty if it opens them itself."""
    identity: Path | None = None
    """The folder with this server's certificate for nodes, which `hotdesk node enroll` wrote."""
    sync: bool = False
    """Whether doors on nodes send a request only after this server has its record."""

    @property
    def is_local(self) -> bool:
        return is_loopback(self.host)

    @property
    def egress_of_builds(self) -> Egress:
        return self.build_egress or self.egress

    @property
    def reached(self) -> str:
        """Return what follows `PORT-ID.` in a sandbox's address: the domain, and the port unless it is 443."""
        port = self.tls_port or self.port
        return self.domain if self.tls_port == 443 else f"{self.domain}:{port}"


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read(table: object) -> Serving:
    return Serving(**read_settings("serve", table, SETTINGS))


def check(serving: Serving, has_keys: bool) -> Serving:
    if serving.host == "localhost":
        raise BriefError("host must be an IP address, not a name; use 127.0.0.1 to serve this machine only")
    if serving.acme and not (serving.tls_port and serving.names):
        raise BriefError(
            "ACME obtains certificates for host names: set `names` and `tls_port`, or pass --name and --tls-port"
        )
    if serving.tls_port and (serving.certificate is None or serving.private_key is None):
        raise BriefError("TLS needs a certificate and its key: --certificate FILE --key-file FILE, or `[serve] acme`")
    if (serving.certificate or serving.private_key) and not serving.tls_port:
        raise BriefError("a certificate needs a TLS port: add --tls-port N")
    for name in serving.names:
        if f".{name}".endswith(f".{serving.domain}"):
            raise BriefError(
                f"the server name {name} must not be the sandbox domain {serving.domain} or a name below it; set "
                "`[serve] domain` to another domain"
            )
    if serving.nodes and serving.identity is None:
        raise BriefError(
            "`[serve] nodes` needs `[serve] identity`, the folder that `hotdesk node enroll --server` created"
        )
    if serving.sync and not serving.nodes:
        raise BriefError("`[serve] sync` concerns desks on nodes, and `[serve] nodes` is not set; remove `sync`")
    if not MIN_SIZE <= serving.volume_size <= MAX_SIZE:
        raise BriefError(f"volume_size must be 16M to 16T, not {serving.volume_size} bytes")
    if not serving.is_local:
        if not serving.tls_port:
            raise BriefError(
                f"{serving.host} is not loopback: keys would be sent unencrypted; add --tls-port with a certificate"
            )
        if not has_keys:
            raise BriefError(
                f"{serving.host} is not loopback and there is no key yet; create one with `hotdesk key new --name NAME`"
            )
    return serving


def read_models(listed: list[str]) -> tuple[str, ...]:
    """Read and check models' names."""
    for each in listed:
        if not MODEL_SHAPE.fullmatch(each):
            raise ValueError(f"has an invalid model name {make_printable(each[:80])!r}; write {FORMS}")
        names.split_name(each)
    return tuple(dict.fromkeys(listed))


def _read_registries(listed: list[str]) -> tuple[str, ...]:
    """Read registries: `HOST[:PORT]` for https, or with the scheme before it."""
    for each in listed:
        if not REGISTRY_SHAPE.fullmatch(each):
            raise ValueError(
                f"has an invalid registry {make_printable(each[:80])!r}; write registry.example.com or "
                "http://10.0.0.5:5000"
            )
    return tuple(dict.fromkeys(listed))


def _read_origins(listed: list[str]) -> tuple[str, ...]:
    """Read origins of pages: scheme, host and port, without a path."""
    for each in listed:
        if not _ORIGIN_SHAPE.fullmatch(each):
            raise ValueError(
                f"has an invalid origin {make_printable(each[:80])!r}; write https://app.example.com or "
                "http://localhost:5173"
            )
    return tuple(dict.fromkeys(listed))


FILE = Annotated[str, re.compile(r"[^\0]+"), Otherwise("must be the path of a file or folder"), Path]
_HOST_NAME = Annotated[
    str, NAME_SHAPE, Otherwise("must be a lower-case host name without a port, such as desk.example.test")
]
SETTINGS: dict[str, Any] = {
    "host": Annotated[
        str, lambda text: str(ip_address(text)), Otherwise("must be an IP address, such as 127.0.0.1 or 0.0.0.0")
    ],
    "port": count(0, 65535),
    "tls_port": count(0, 65535),
    "certificate": FILE,
    "private_key": FILE,
    "acme": Annotated[
        str, re.compile(r"https://[!-~]{1,500}"), Otherwise("must be the https URL of an ACME directory")
    ],
    "acme_email": Annotated[
        str, re.compile(r"[^@\s]{1,64}@[^@\s]{1,190}"), Otherwise("must be a mail address, such as admin@example.com")
    ],
    "acme_port": count(1, 65535),
    "acme_ca": FILE,
    "names": Annotated[tuple[_HOST_NAME, ...], Otherwise("must be a list of lower-case host names without ports")],
    "domain": _HOST_NAME,
    "egress": make_choice_hint(get_args(Egress)),
    "shutdown": make_choice_hint(get_args(_Shutdown)),
    "ready": dict[str, Annotated[int, Range(0, MAX_READY)]],
    "longest": make_number_hint(1, _MAX_LIFETIME_S),
    "mcp_image": Annotated[str, as_name],
    "mcp_idle": make_number_hint(1, _MAX_LIFETIME_S),
    "mcp_grace": make_number_hint(0, 3600),
    "requester_may_approve": bool,
    "templates": tuple[FILE, ...],
    "models": Annotated[
        list[str], Otherwise('must be a list of models, such as ["anthropic:claude-sonnet-5"]'), read_models
    ],
    "log": make_choice_hint(get_args(_LogFormat)),
    "quota": Annotated[object, partial(quotas.read, "serve.quota")],
    "base_images": dict[str, Annotated[str, as_name]],
    "registries": Annotated[
        list[str], Otherwise('must be a list of registries, such as ["registry.example.com"]'), _read_registries
    ],
    "build_egress": make_choice_hint(get_args(Egress)),
    "build_cache": SIZE,
    "wall": make_choice_hint(WALLS[1:]),
    "tenants": Annotated[object, partial(read_tenants, "serve.tenants")],
    "volume_size": SIZE,
    "access_log": bool,
    "http2": bool,
    "origins": Annotated[
        list[str], Otherwise('must be a list of origins, such as ["https://app.example.com"]'), _read_origins
    ],
    "share_rate": make_number_hint(0.1, 1e6),
    "nodes": Annotated[list[str], Otherwise(f"must be a list of node addresses: {NODE_FORMS}"), parse_nodes],
    "identity": FILE,
    "sync": bool,
}
"""The settings of `[serve]`."""
assert SETTINGS.keys() == {each.name for each in fields(Serving)}
