"""Share links: signed addresses that admit their holder to one port of one sandbox until a given time. No I/O.

A token names a share, a port and an expiry time, signed with a key that is derived from the sandbox's own token. Opened
in a browser it becomes a cookie for that port's host name, and is removed from the address.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from urllib.parse import quote, unquote_plus, urlencode

from starlette.datastructures import Headers
from starlette.types import Scope

from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import DeskId

_PARAMETER = "hotdesk-share"
"""The query parameter, and the header, that carries a token."""
COOKIE, SECURE_COOKIE = "hotdesk-share", "__Host-hotdesk-share"
_SHAPE = re.compile(r"(?P<id>[0-9a-f]{12})\.(?P<port>[0-9]{1,5})\.(?P<expires>[0-9]{1,11})\.(?P<mac>[0-9a-f]{64})")
_PAIR = re.compile(rb"(?:^|&)hotdesk-share=(?P<token>[^&]*)")
"""The parameter as `build_url` writes it: what is read is exactly what `strip_query` removes."""


@dataclass(frozen=True, slots=True)
class Share:
    id: str
    port: int
    expires: int
    """Seconds since 1970."""


def new_share(port: int, expires: float) -> Share:
    return Share(secrets.token_hex(6), port, int(expires))


def sign(key: bytes, sandbox: str, share: Share) -> str:
    return f"{share.id}.{share.port}.{share.expires}.{_compute_mac(key, sandbox, share)}"


def verify(key: bytes, sandbox: str, port: int, token: str, now: float | None = None) -> Share | None:
    """Return the share of a token; `None` if it is for another port or sandbox, was changed, or has expired."""
    found = _SHAPE.fullmatch(token)
    if found is None:
        return None
    share = Share(found["id"], int(found["port"]), int(found["expires"]))
    if not hmac.compare_digest(_compute_mac(key, sandbox, share), found["mac"]) or share.port != port:
        return None
    return share if share.expires > (time.time() if now is None else now) else None


def derive_key(token: str) -> bytes:
    return hmac.new(token.encode(), b"hotdesk share links", "sha256").digest()


def _compute_mac(key: bytes, sandbox: str, share: Share) -> str:
    text = f"v1:{sandbox}:{share.id}:{share.port}:{share.expires}"
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def list_tokens(scope: Scope) -> list[str]:
    """Return the tokens in a request: in a header, in cookies, or in its address."""
    headers = Headers(scope=scope)
    names = (COOKIE, SECURE_COOKIE)
    cookies = headers.getlist("cookie") if is_own_request(scope) else ()
    pairs = (pair.strip().partition("=") for value in cookies for pair in value.split(";"))
    found = [
        headers.get(_PARAMETER, ""),
        *(value for name, _, value in pairs if name in names),
        find_query_token(scope),
    ]
    return [each for each in found if each][:8]


def is_own_request(scope: Scope) -> bool:
    """Return whether a browser made a request for a page of the same host name, or to open one.

    To a browser the sandboxes of a server are one site, so it sends a cookie with requests of another's page, too.
    """
    headers = Headers(scope=scope)
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "")
    is_reading = scope["method"] in ("GET", "HEAD") and "upgrade" not in headers
    if origin is None:
        is_own = is_reading or site == "same-origin"
    else:
        host = headers.get("host", "").lower()
        is_own = origin.lower() in (f"http://{host}", f"https://{host}") or (origin, site) == ("null", "same-origin")
    is_opened = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return is_own and (site in ("", "none", "same-origin") or (is_reading and is_opened))


def find_query_token(scope: Scope) -> str:
    """Return the token in a request's address; empty if there is none."""
    found = _PAIR.search(scope["query_string"])
    return unquote_plus(found["token"].decode("latin-1")) if found else ""


def strip_query(query: bytes) -> bytes:
    """Return a query without the token, which no program inside may receive."""
    return _PAIR.sub(b"", query).lstrip(b"&") if b"hotdesk-share=" in query else query


def build_url(scheme: str, port: int, sandbox: DeskId | str, domain: str, token: str, path: str = "/") -> str:
    return f"{scheme}://{port}-{sandbox}.{domain}{quote(path)}?{urlencode({_PARAMETER: token})}"


def clean_address(scope: Scope) -> str:
    """Return a request's path and query without the token, to redirect a browser to; never another host."""
    path = "/" + scope["raw_path"].decode("latin-1").lstrip("/\\")
    query = strip_query(scope["query_string"]).decode("latin-1")
    return f"{path}?{query}" if query else path


def build_cookie(token: str, share: Share, *, tls: bool, now: float) -> str:
    lasts = max(0, share.expires - int(now))
    name, secure = (SECURE_COOKIE, "; Secure") if tls else (COOKIE, "")
    return f"{name}={token}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Lax{secure}"
