"""An ERP to try things on: pages over HTTPS on loopback, for whoever signs in. It has no API."""

from __future__ import annotations

import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hmac import compare_digest
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOST = "erp.example.test"
ORDERS = {"PO-7001": 1140.00, "PO-7002": 779.00, "PO-7003": 885.00, "PO-7004": 980.00, "PO-7005": 476.00}
"""What was ordered. The invoice of PO-7004 says 1080.00."""
USER = "clerk"
PAGE = "<!doctype html><meta charset=utf-8><title>ERP</title><link rel=icon href=data:,>{page}"
LOGIN = """<h1>Sign in</h1><form method=post action=/login>
<p><label>User <input name=user autocomplete=off></label>
<p><label>Password <input name=password type=password></label>
<p><button>Sign in</button></form>"""
ORDER = """<h1>Order {order}</h1><table>
<tr><th>Amount<td id=amount>{amount:,.2f} EUR
</table><a href=/orders>All orders</a>"""


@dataclass
class Erp:
    """An ERP that runs."""

    port: int
    ca: Path
    """The authority its certificate is from."""
    asked: list[tuple[str, int]] = field(default_factory=list)
    """Every path it was asked for, and what it answered."""
    sessions: set[str] = field(default_factory=set)
    """Who is signed in."""


class Talk(BaseHTTPRequestHandler):
    """Answers one request after the other."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    password: str
    erp: Erp

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Show a page to whoever may see it."""
        if self.path == "/login":
            self.answer(200, LOGIN)
        elif not self.is_signed_in():
            self.answer(303, "", ("Location", "/login"))
        elif self.path == "/orders":
            self.answer(200, "<h1>Orders</h1>" + "".join(f"<a href='/orders/{order}'>{order}</a> " for order in ORDERS))
        elif (order := self.path.removeprefix("/orders/")) in ORDERS:
            self.answer(200, ORDER.format(order=order, amount=ORDERS[order]))
        else:
            self.answer(404, "<h1>There is no such order</h1>")

    def do_POST(self) -> None:
        """Let somebody in."""
        length = int(self.headers.get("Content-Length", 0))
        told = {name: values[0] for name, values in parse_qs(self.rfile.read(length).decode()).items()}
        right = compare_digest(told.get("password", "").encode(), self.password.encode())
        if self.path != "/login" or told.get("user") != USER or not right:
            self.answer(403, LOGIN)
        else:
            session = secrets.token_urlsafe(24)
            self.erp.sessions.add(session)
            cookie = f"session={session}; Secure; HttpOnly; SameSite=Lax; Path=/"
            self.answer(303, "", ("Location", "/orders"), ("Set-Cookie", cookie))

    def is_signed_in(self) -> bool:
        """Say whether the caller brings a session of ours."""
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        return "session" in cookies and cookies["session"].value in self.erp.sessions

    def answer(self, status: int, page: str, *headers: tuple[str, str]) -> None:
        """Send a page."""
        body = PAGE.format(page=page).encode()
        self.erp.asked.append((self.path, status))
        self.send_response(status)
        for name, value in (("Content-Type", "text/html; charset=utf-8"), *headers):
            self.send_header(name, value)
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
def serving(folder: Path, password: str) -> Iterator[Erp]:
    """Serve for the length of a block."""
    ca, chain = certify(folder)
    erp = Erp(0, ca)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Talking", (Talk,), {"password": password, "erp": erp}))
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
