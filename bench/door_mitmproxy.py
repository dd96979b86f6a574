"""mitmproxy as a door's peer: no more addons than interception needs, a header put in, bodies streamed.

Runs in an environment of its own (`install` in `bench.door`): what it needs cannot stand beside what hotdesk needs.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mitmproxy import options  # type: ignore[import-not-found]
from mitmproxy.addons import core, next_layer, proxyserver, tlsconfig  # type: ignore[import-not-found]
from mitmproxy.master import Master  # type: ignore[import-not-found]


class Inject:
    """Puts the token in, and has bodies passed on as they come."""

    def __init__(self, token: str) -> None:
        self.token = token

    def requestheaders(self, flow: Any) -> None:
        """Change a request."""
        flow.request.headers["authorization"] = f"Bearer {self.token}"
        flow.request.stream = True

    def responseheaders(self, flow: Any) -> None:
        """Leave an answer as it is."""
        flow.response.stream = True


async def serve(folder: str, ca: str, token: str) -> None:
    """Serve until our standard input ends."""
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
