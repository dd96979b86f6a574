"""Test web sites for the examples: HTTPS on loopback, with certificates of their own authority."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from pathlib import Path

from hotdesk.evaluation.website import certify_hosts, serve_website

__all__ = ["SiteHandler", "certify_hosts", "format_door_settings", "serve_website"]


class SiteHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, without a log."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def read_body(self) -> bytes:
        """Read the request's body."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        """Send a response; HTML unless `headers` has another Content-Type."""
        self.send_response(status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **dict(headers)}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def format_door_settings(ca: Path, ports: dict[str, int]) -> str:
    """Return settings by which the door finds the sites on loopback and trusts their authority."""
    names = ", ".join(f'"{host}" = "127.0.0.1:{port}"' for host, port in ports.items())
    return f'[door]\nca = "{ca}"\nnames = {{{names}}}\n'
