"""Web sites for trials: HTTPS on loopback, with certificates from an authority made for them."""

from __future__ import annotations

import os
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

AUTHORITY = "example root"
_POLL_INTERVAL_S = 0.05


class WebsiteServer(ThreadingHTTPServer):
    """Serves each client in a thread of its own, and ignores clients that disconnect."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def certify_hosts(folder: Path, *hosts: str) -> tuple[Path, Path]:
    """Write an authority's certificate, and a certificate with its key for these hosts; return both files."""
    now, root, leaf = (
        datetime.now(UTC),
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )

    def sign(subject: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, AUTHORITY)]
        builder = x509.CertificateBuilder(names[1], names[0], key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=2))
        return builder.add_extension(extension, critical=False).sign(root, hashes.SHA256()).public_bytes(Encoding.PEM)

    ca, chain = folder / "ca.pem", folder / "site.pem"
    ca.write_bytes(sign(AUTHORITY, root, x509.BasicConstraints(ca=True, path_length=0)))
    ca.chmod(0o644)  # the door reads it as another user
    key = leaf.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    alternatives = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    with os.fdopen(os.open(chain, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(sign(hosts[0], leaf, alternatives) + key)
    return ca, chain


@contextmanager
def serve_website(handler: type[BaseHTTPRequestHandler], chain: Path, port: int = 0) -> Iterator[int]:
    """Serve for the length of a block, on a free port unless one is given; yield the port."""
    server = WebsiteServer(("127.0.0.1", port), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": _POLL_INTERVAL_S})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
