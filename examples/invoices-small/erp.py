"""An ERP to try things on: orders as JSON over HTTPS on loopback, for whoever has the token."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOST = "erp.example.test"
ORDERS = {"PO-7001": 1140.00, "PO-7002": 779.00, "PO-7003": 885.00, "PO-7004": 980.00, "PO-7005": 476.00}
"""What was ordered. The invoice of PO-7004 says 1080.00."""


@dataclass
class Erp:
    """An ERP that runs."""

    port: int
    ca: Path
    """The authority its certificate is from."""
    asked: list[tuple[str, int]] = field(default_factory=list)
    """Every path it was asked for, and what it answered."""


class Talk(BaseHTTPRequestHandler):
    """Answers one request after the other."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    token: str
    erp: Erp

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Give an order to whoever may see it."""
        order = self.path.removeprefix("/orders/")
        if not compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.token}"):
            self.answer(401, {"error": "who are you?"})
        elif order not in ORDERS:
            self.answer(404, {"error": "there is no such order"})
        else:
            self.answer(200, {"order": order, "amount": ORDERS[order], "currency": "EUR"})

    def answer(self, status: int, told: dict[str, object]) -> None:
        """Send JSON."""
        body = json.dumps(told).encode()
        self.erp.asked.append((self.path, status))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def certify(folder: Path) -> tuple[Path, Path]:
    """Make an authority, and a certificate of its with the key; give both files."""
    now, root, leaf = (
        datetime.now(UTC),
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )

    def signed(subject: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, "example root")]
        made = x509.CertificateBuilder(names[1], names[0], key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=2))
        return made.add_extension(extension, critical=False).sign(root, hashes.SHA256()).public_bytes(Encoding.PEM)

    ca, chain = folder / "erp-ca.pem", folder / "erp.pem"
    ca.write_bytes(signed("example root", root, x509.BasicConstraints(ca=True, path_length=0)))
    key = leaf.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain.write_bytes(signed(HOST, leaf, x509.SubjectAlternativeName([x509.DNSName(HOST)])) + key)
    return ca, chain


@contextmanager
def serving(folder: Path, token: str) -> Iterator[Erp]:
    """Serve for the length of a block."""
    ca, chain = certify(folder)
    erp = Erp(0, ca)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Talking", (Talk,), {"token": token, "erp": erp}))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    erp.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield erp
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
