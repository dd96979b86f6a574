"""Settings and certificates of a running server, read again on SIGHUP; its desks, streams and listeners stay."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import fields, replace

import anyio
import anyio.to_thread

from hotdesk.api.log import LOG
from hotdesk.api.settings import Serving
from hotdesk.errors import HotdeskError

LIVE = ("certificate", "private_key", "longest", "requester_may_approve", "shutdown", "quota", "wall", "tenants")
"""Settings that take effect on a reload; the others need a restart."""


class Reloading:
    """Reads settings again on request, and notifies their holders."""

    def __init__(self, serving: Serving, read: Callable[[], Serving] | None = None) -> None:
        self.serving = serving
        self.read = read or (lambda: serving)
        self.requested = anyio.Event()
        self.holders: list[Callable[[Serving], None]] = []

    def ask(self) -> None:
        self.requested.set()

    def add(self, holder: Callable[[Serving], None]) -> None:
        """Call `holder` with new settings; it may refuse them by raising."""
        self.holders.append(holder)

    async def run(self) -> None:
        while True:
            await self.requested.wait()
            self.requested = anyio.Event()
            await self.reload()

    async def reload(self) -> None:
        """Reload the settings; invalid ones change nothing, and the log says why."""
        try:
            loaded = await anyio.to_thread.run_sync(self.read)
            found = replace(self.serving, **{name: getattr(loaded, name) for name in LIVE})
            for holder in self.holders:
                holder(found)
        except (HotdeskError, OSError, ssl.SSLError) as e:
            LOG.write("reload", f"nothing was reloaded: {e}")
            return
        self.serving = found
        others = (each.name for each in fields(loaded) if each.name not in (*LIVE, "port"))
        later = ",".join(name for name in others if getattr(loaded, name) != getattr(found, name))
        LOG.write("reload", "reloaded certificate and settings", needs_restart=later or "nothing")


def make_certificate_loader(context: ssl.SSLContext) -> Callable[[Serving], None]:
    """Return a function that loads the certificate of given settings for new connections."""

    def load(serving: Serving) -> None:
        assert serving.certificate is not None
        context.load_cert_chain(serving.certificate, serving.private_key)

    return load
