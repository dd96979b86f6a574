"""Creates, lists and revokes share links."""

from __future__ import annotations

import re
import time

import anyio

from hotdesk.api.e2b.control.requests import NewShare
from hotdesk.api.e2b.control.views import as_time
from hotdesk.api.e2b.envd import envd
from hotdesk.api.e2b.ports import shares
from hotdesk.api.e2b.ports.shares import Share
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.e2b.templates import PORT as INTERPRETER_PORT
from hotdesk.api.settings import Serving
from hotdesk.desk.room.room import GATE

_MAX_SHARES = 256
"""Valid links to the ports of one sandbox."""
_MAX_REVOKED = 4096
_ID = re.compile(r"[0-9a-f]{12}")
_UNSHARED = frozenset((envd.PORT, INTERPRETER_PORT, GATE[1]))
"""Ports that run commands, and the port of the egress proxy: only the sandbox's own token opens them."""


def make(sandbox: Sandbox, serving: Serving, order: NewShare) -> dict[str, object]:
    """Create a link; it expires with the sandbox at the latest."""
    if order.port in _UNSHARED:
        raise E2bError(
            400,
            f"port {order.port} cannot be shared, because its clients could run commands in the sandbox or use the "
            "sandbox's egress proxy; share another port",
        )
    if not sandbox.share_key:
        raise E2bError(400, "share links need a sandbox with an access token; create the sandbox with secure true")
    if len(list_valid(sandbox)) >= _MAX_SHARES:
        raise E2bError(429, f"this sandbox has {_MAX_SHARES} valid share links, which is the limit; revoke some")
    expires = min(time.time() + order.expires_in, sandbox.started + serving.longest)
    share = shares.new_share(order.port, expires)
    sandbox.shares[share.id] = share
    token = shares.sign(sandbox.share_key, sandbox.id, share)
    scheme = "https" if serving.tls_port else "http"
    url = shares.build_url(scheme, share.port, sandbox.id, serving.reached, token, order.path)
    return {**describe(share), "token": token, "url": url}


def list_valid(sandbox: Sandbox) -> list[Share]:
    """Return the valid links that this server created; expired ones are removed."""
    for share in [each for each in sandbox.shares.values() if each.expires <= time.time()]:
        del sandbox.shares[share.id]
    return sorted(sandbox.shares.values(), key=lambda share: (share.expires, share.id))


async def revoke(sandboxes: Sandboxes, sandbox: Sandbox, share: str) -> None:
    """Revoke a link, cut the connections it opened, and record it for later servers."""
    if not _ID.fullmatch(share):
        raise E2bError(404, "share link not found")
    if len(sandbox.revoked) >= _MAX_REVOKED:
        raise E2bError(
            429,
            f"this share link was not revoked: {_MAX_REVOKED} links of the sandbox were revoked already, which is the "
            "limit; kill the sandbox to end this link",
        )
    sandbox.shares.pop(share, None)
    sandbox.revoked.add(share)
    for passage in list(sandbox.passages.get(share, ())):
        passage.cancel()
    with anyio.CancelScope(shield=True):  # a caller that is gone does not get the link back
        await sandboxes.record(sandbox)


def describe(share: Share) -> dict[str, object]:
    """Describe the public part of a link, without its token."""
    return {"shareID": share.id, "port": share.port, "expiresAt": as_time(share.expires)}
