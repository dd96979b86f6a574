"""A real server on loopback that doors can reach: HTTP and HTTPS, with a certificate of its own authority."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass
class Upstream:
    """A running server, and the requests it got."""

    port: int
    ca: Path
    """The certificate of the authority to trust."""
    seen: list[Seen] = field(default_factory=list)
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    """Answers by path; any other request is echoed as JSON."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class Talk(BaseHTTPRequestHandler):
    """Answers from the table, or echoes the request."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    """Send an answer at once; two packets would wait for each other's acknowledgement."""
    upstream: Upstream

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:  # the client disconnected: an incomplete request is not recorded
            self.close_connection = True
            return
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        seen = Seen(self.command, self.path, list(self.headers.items()), body)
        self.upstream.seen.append(seen)
        told = {"method": seen.method, "path": seen.path, "headers": seen.headers, "body": body.decode("latin-1")}
        status, headers, data = self.upstream.answers.get(
            self.path.partition("?")[0], (200, {"Content-Type": "application/json"}, json.dumps(told).encode())
        )
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Transfer-Encoding" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = do  # noqa: N815 - the library's names


def make_certificates(folder: Path, *names: str) -> tuple[Path, Path]:
    """Create an authority, and a server's certificate and key; return the files of both."""
    now = datetime.now(UTC)

    def sign(
        subject: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, ca: bool
    ) -> x509.Certificate:
        def name(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(issuer))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=2))
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        if not ca:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False
            )
        return builder.sign(signer, hashes.SHA256())

    root, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority, server = sign("test root", root, "test root", root, True), sign("test", leaf, "test root", root, False)
    ca, chain = folder / "upstream-ca.pem", folder / "upstream.pem"
    ca.write_bytes(authority.public_bytes(Encoding.PEM))
    chain.write_bytes(
        server.public_bytes(Encoding.PEM) + leaf.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return ca, chain


@contextlib.contextmanager
def upstream(folder: Path, *names: str, tls: bool = True) -> Iterator[Upstream]:
    ca, chain = make_certificates(folder, *names)
    found = Upstream(0, ca)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Talking", (Talk,), {"upstream": found}))
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
