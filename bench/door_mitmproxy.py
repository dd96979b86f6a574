"""mitmproxy as the door's peer: only the addons that interception needs, a header added, bodies streamed.

Runs in a virtual environment (`install` in `bench.door_processes`), because its dependencies conflict with hotdesk's.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mitmproxy import options  # type: ignore[import-not-found]
from mitmproxy.addons import core, next_layer, proxyserver, tlsconfig  # type: ignore[import-not-found]
from mitmproxy.master import Master  # type: ignore[import-not-found]


class Inject:
    """Adds the token, and streams bodies."""

    def __init__(self, token: str) -> None:
        self.token = token

    def requestheaders(self, flow: Any) -> None:
        flow.request.headers["authorization"] = f"Bearer {self.token}"
        flow.request.stream = True

    def responseheaders(self, flow: Any) -> None:
        """Stream the answer unchanged."""
        flow.response.stream = True


async def serve(folder: str, ca: str, token: str) -> None:
    """Serve until standard input ends."""
    chosen = options.Options(confdir=folder, listen_host="127.0.0.1", listen_port=0)
    master = Master(chosen, asyncio.get_running_loop(), with_termlog=False)
    proxy = proxyserver.Proxyserver()
    master.addons.add(core.Core(), proxy, next_layer.NextLayer(), tlsconfig.TlsConfig(), Inject(token))
    chosen.update(ssl_verify_upstream_trusted_ca=ca, http2=False)
    running = asyncio.ensure_future(master.run())
    while not proxy.listen_addrs():  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)
    print(proxy.listen_addrs()[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    master.shutdown()
    await running


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
