"""What sites to try things on are made of: HTTPS on loopback, certified by an authority of their own."""

from __future__ import annotations

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

ROOT = "example root"


class Talk(BaseHTTPRequestHandler):
    """Answers one request after the other."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def told(self) -> bytes:
        """Read what was sent."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        """Send an answer; a page, unless the headers say otherwise."""
        self.send_response(status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **dict(headers)}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Site(ThreadingHTTPServer):
    """Serves each caller on a thread of its own, and shrugs at those who hang up."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a caller that is gone; all else is a fault."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def certify(folder: Path, *hosts: str) -> tuple[Path, Path]:
    """Make an authority, and a certificate of its for some hosts, with the key; give both files."""
    now, root, leaf = (
        datetime.now(UTC),
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )

    def signed(subject: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, ROOT)]
        made = x509.CertificateBuilder(names[1], names[0], key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=2))
        return made.add_extension(extension, critical=False).sign(root, hashes.SHA256()).public_bytes(Encoding.PEM)

    ca, chain = folder / "ca.pem", folder / "site.pem"
    ca.write_bytes(signed(ROOT, root, x509.BasicConstraints(ca=True, path_length=0)))
    key = leaf.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    alternatives = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    chain.write_bytes(signed(hosts[0], leaf, alternatives) + key)
    return ca, chain


@contextmanager
def serving(talk: type[Talk], chain: Path, port: int = 0) -> Iterator[int]:
    """Serve for the length of a block, at a port if one is told; give the port."""
    server = Site(("127.0.0.1", port), talk)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def door(ca: Path, ports: dict[str, int]) -> str:
    """Write the settings by which the door finds sites, and believes their certificates."""
    names = ", ".join(f'"{host}" = "127.0.0.1:{port}"' for host, port in ports.items())
    return f'[door]\nca = "{ca}"\nnames = {{{names}}}\n'
