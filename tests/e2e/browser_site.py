"""A website inside a desk for browser tests: pages, forms that echo input, and fast, slow and interrupted downloads."""

from __future__ import annotations

import email.message
import email.parser
import email.policy
import http.server
import json
import sys
import time
import urllib.parse


class Site(http.server.SimpleHTTPRequestHandler):
    """Serves the folder in which it is started."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def answer(self, kind: str, data: bytes, length: int | None = None, **headers: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def do_GET(self) -> None:
        name = self.path.partition("?")[0]
        if name == "/slow.csv":
            self.answer("text/csv", b"a,b\n" * 1000, 8000, Content_Disposition="attachment")
            time.sleep(0.4)
            self.wfile.write(b"c,d\n" * 1000)
        elif name == "/broken.csv":
            self.answer("text/csv", b"a,b\n", 8000, Content_Disposition='attachment; filename="../../.bashrc"')
            self.close_connection = True
        elif name == "/endless":
            time.sleep(5)
        else:
            super().do_GET()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = self.headers["Content-Type"]
        if kind.startswith("multipart/"):
            head = f"Content-Type: {kind}\n\n".encode()
            parts = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body).iter_parts()
            told: list[object] = [[part.get_param("name", header="content-disposition"), text(part)] for part in parts]
        else:
            told = [*urllib.parse.parse_qsl(body.decode(), keep_blank_values=True)]
        self.answer("text/html; charset=utf-8", f"<title>Told</title><pre>{json.dumps(told)}</pre>".encode())


def text(part: email.message.Message) -> str:
    data = part.get_payload(decode=True)
    said = data.decode() if isinstance(data, bytes) else ""
    return f"{part.get_filename()}: {said}" if part.get_filename() else said


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Site).serve_forever()
