"""What sites to try things on are made of: HTTPS on loopback, certified by an authority of their own."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from pathlib import Path

from hotdesk.evaluation.website import certify_hosts as certify
from hotdesk.evaluation.website import serve_website as serving

__all__ = ["Talk", "certify", "door", "serving"]


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


def door(ca: Path, ports: dict[str, int]) -> str:
    """Write the settings by which the door finds sites, and believes their certificates."""
    names = ", ".join(f'"{host}" = "127.0.0.1:{port}"' for host, port in ports.items())
    return f'[door]\nca = "{ca}"\nnames = {{{names}}}\n'
