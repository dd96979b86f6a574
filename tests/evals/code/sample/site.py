"""A site that returns a rate to those who have its token."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

HOSTS = ("rates.example.test",)


def secrets(hidden: dict[str, Any]) -> dict[str, str]:
    return {"rates-token": hidden["token"]}


def talk(hidden: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    class RateRequest(BaseHTTPRequestHandler):
        answered = 0

        def do_GET(self) -> None:
            is_allowed = self.path == "/rate" and self.headers["Authorization"] == f"Bearer {hidden['token']}"
            RateRequest.answered += is_allowed
            body = json.dumps({"rate": hidden["rate"]} if is_allowed else {}).encode()
            self.send_response(200 if is_allowed else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Write no log."""

        @classmethod
        def state(cls) -> dict[str, int]:
            return {"answered": cls.answered}

    return RateRequest
