"""The server's end of ACME: starts the process that obtains certificates, and loads each one it wrote."""

from __future__ import annotations

import json
import os
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from hotdesk.api.log import LOG
from hotdesk.api.settings import Serving
from hotdesk.errors import make_printable
from hotdesk.ipc.child import spawn
from hotdesk.linux.sockets import receive

PROGRAM = "hotdesk.api.acme.process"
_EXIT_TIMEOUT_S = 5.0


class CertificateRenewal:
    """The process that obtains certificates, for as long as the server runs."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self.line, self.pid = line, pid

    async def run(self, context: ssl.SSLContext, file: Path) -> None:
        """Use each new certificate for new connections; report failed renewals to the operator."""
        while data := await receive(self.line):
            message = json.loads(data)
            if message.get("renewed"):
                try:
                    await anyio.to_thread.run_sync(context.load_cert_chain, file)
                except (OSError, ssl.SSLError) as e:
                    LOG.write("certificate", f"the new certificate cannot be loaded: {type(e).__name__}")
                    continue
                LOG.write("certificate", "a new certificate is in use")
            else:
                why, seconds = make_printable(str(message.get("failed"))[:400]), message.get("seconds")
                LOG.write("certificate", f"no certificate was obtained: {why}", next_attempt_s=seconds)
        LOG.write("certificate", "the process that renews certificates ended unexpectedly; restart the server")

    async def close(self) -> None:
        anyio.notify_closing(self.line)
        self.line.close()
        with anyio.move_on_after(_EXIT_TIMEOUT_S, shield=True), suppress(ChildProcessError):
            await anyio.to_thread.run_sync(os.waitpid, self.pid, 0, abandon_on_cancel=True)


def start_renewal(serving: Serving, challenges: socket.socket) -> CertificateRenewal:
    """Start the process; call it before the server drops its privileges."""
    assert serving.certificate is not None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    settings = {
        "folder": str(serving.certificate.parent),
        "directory": serving.acme,
        "email": serving.acme_email,
        "ca": str(serving.acme_ca or ""),
        "names": list(serving.names),
        "tls_port": serving.tls_port,
    }
    with theirs:
        pid = spawn(PROGRAM, settings, theirs, challenges)
    ours.setblocking(False)
    return CertificateRenewal(ours, pid)
