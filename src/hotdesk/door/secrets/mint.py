"""Fetch OAuth2 client-credentials tokens just in time, through the door's own checked connections."""

from __future__ import annotations

import base64
import json
import time
from urllib.parse import quote_plus, urlencode, urlsplit

from hotdesk.door.egress import Egress, GrantValue
from hotdesk.door.http import framing
from hotdesk.door.http.framing import BodyReader, Headers, HttpMessageError
from hotdesk.door.http.upstream import UnreachableError, Upstreams
from hotdesk.door.http.wire import HungUpError, Wire

_MINT_TIMEOUT_S = 15.0
ANSWER = 256 << 10
MARGIN = 30.0
"""Seconds before a token's end at which another is fetched."""
_LONGEST_LIFE = 86400.0
_DEFAULT_LIFE = 300.0
"""Seconds for which a token is used if the server does not give its lifetime."""


async def mint_client_token(way: Egress, live: GrantValue, upstreams: Upstreams) -> bytes:
    """Return the client's token; fetch another shortly before the last one ends. No token is used beyond the grant."""
    now = time.time()
    if live.minted and now < live.fresh_until:
        return live.minted
    values = live.values
    url = urlsplit(values["token_url"])
    host, scheme = url.hostname or "", url.scheme
    port = url.port or (443 if scheme == "https" else 80)
    form = {"grant_type": "client_credentials", **({"scope": values["scope"]} if values["scope"] else {})}
    body = urlencode(form).encode()
    secret = base64.b64decode(values["value"]).decode()
    pair = f"{quote_plus(values['client_id'])}:{quote_plus(secret)}".encode()
    headers = Headers(
        (
            (b"Host", url.netloc.encode()),
            (b"Authorization", b"Basic " + base64.b64encode(pair)),
            (b"Content-Type", b"application/x-www-form-urlencoded"),
            (b"Accept", b"application/json"),
            (b"Accept-Encoding", b"identity"),
            (b"Content-Length", str(len(body)).encode()),
            (b"Connection", b"close"),
        )
    )
    line = (url.path or "/") + (f"?{url.query}" if url.query else "")
    wire = await upstreams.dial(scheme, host, port, private=True, named=host, names=way.names)
    try:
        wire.write(framing.request_head("POST", line.encode("ascii"), headers) + body)
        token, life = _read_token(await answer(wire))
    except (HungUpError, HttpMessageError, OSError) as e:
        secret = live.live_grant.grant.secret
        raise UnreachableError(f"could not get a token for the secret {secret} from {host}: {e}") from None
    finally:
        wire.abort()
    live.minted = token
    live.fresh_until = min(now + max(life - MARGIN, life / 2), live.until or float("inf"))
    return token


async def answer(wire: Wire) -> bytes:
    while (end := framing.find_end(wire.buffer) if wire.buffer else -1) < 0:
        if not await wire.fill(_MINT_TIMEOUT_S):
            raise HungUpError("the token server closed the connection")
    response = framing.parse_response(bytes(wire.buffer[:end]), "POST")
    del wire.buffer[:end]
    reader, body = BodyReader(response.body), bytearray()
    while not reader.done:
        data = await wire.read(_MINT_TIMEOUT_S)
        if not data:
            reader.feed_eof()
        body += reader.feed(data)[0]
        if len(body) > ANSWER:
            raise HttpMessageError(502, f"the token server's response has more than {ANSWER} bytes")
    if response.status != 200:
        raise HttpMessageError(502, f"the token server responded with status {response.status}")
    return bytes(body)


def _read_token(body: bytes) -> tuple[bytes, float]:
    try:
        data = json.loads(body)
        token, life = data["access_token"], float(data.get("expires_in", _DEFAULT_LIFE))
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or len(token) < 8:
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise HttpMessageError(502, "the token server's response has no usable access_token") from None
    return token.encode(), min(max(life, 0.0), _LONGEST_LIFE)
