"""The first program of a desk that is a Kubernetes pod: connect to the agent, and run the guest that it sends.

It is part of the pod's specification (`python -c`), so that any image with Python can be a desk. It accepts exactly one
certificate, presents its token, and gets one message: the guest's code, variables and files. Then `pod.py` goes on.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

import base64
import json
import marshal
import os
import socket
import ssl
import sys
import time
from importlib.util import MAGIC_NUMBER

PATIENCE_S = 60.0
FIRST_ATTEMPT_S, LONGEST_ATTEMPT_S, PAUSE_S = 0.2, 5.0, 0.05
MAX_SEED = 1 << 24


def connect(host: str, port: int) -> socket.socket:
    """Connect to the agent, with many short attempts.

    Until a network plug-in knows a new pod it drops or refuses its packets, and a kernel repeats a first packet only
    after one second, then three.
    """
    end, seconds = time.monotonic() + PATIENCE_S, FIRST_ATTEMPT_S
    while True:
        try:
            sock = socket.create_connection((host, port), seconds)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(PAUSE_S)
            seconds = min(seconds * 1.3, LONGEST_ATTEMPT_S)
        else:
            sock.settimeout(PATIENCE_S)
            return sock


class PodChannel:
    """TLS over a TCP connection, with buffers that `pod.py` continues with."""

    def __init__(self, address: str, certificate: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate is the agent's only name
        context.load_verify_locations(cadata=certificate)
        host, _, port = address.rpartition(":")
        self.sock = connect(host.strip("[]"), int(port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing)

    def do(self, step: Callable[..., T], *arguments: object) -> T:
        """Call a method of the TLS object, and carry its data meanwhile."""
        while True:
            try:
                result = step(*arguments)
            except ssl.SSLWantReadError:
                self.send_waiting()
                data = self.sock.recv(1 << 16)
                if not data:
                    raise SystemExit("the agent closed the connection") from None
                self.incoming.write(data)
            else:
                self.send_waiting()
                return result

    def send_waiting(self) -> None:
        if self.outgoing.pending:
            self.sock.sendall(self.outgoing.read())

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.do(self.tls.read, size - len(data))
            if not part:
                raise SystemExit("the agent closed the connection")
            data += part
        return data


def load(modules: list[tuple[str, str, str]]) -> Any:
    """Load the guest's modules in order, from bytecode of this very Python or from source."""
    package = sys.modules["hotdesk_guest"] = type(sys)("hotdesk_guest")
    package.__path__ = []
    for name, source, code in modules:
        module = sys.modules["hotdesk_guest." + name] = type(sys)("hotdesk_guest." + name)
        setattr(package, name, module)
        compiled = marshal.loads(base64.b64decode(code)) if code else compile(source, name + ".py", "exec")
        exec(compiled, module.__dict__)  # hotdesk's own code, from the agent with the pinned certificate
    return package


def main() -> None:
    address, token, certificate = [os.environ.pop("HOTDESK_" + name) for name in ("AGENT", "TOKEN", "CERTIFICATE")]
    channel = PodChannel(address, certificate)
    channel.do(channel.tls.do_handshake)
    hello = {"token": token, "python": MAGIC_NUMBER.hex()}
    channel.do(channel.tls.write, json.dumps(hello).encode() + b"\n")
    size = int.from_bytes(channel.read(4), "big")
    if size > MAX_SEED:
        raise SystemExit("the agent's message is too long")
    seed = json.loads(channel.read(size))
    channel.sock.setblocking(False)
    load(seed["modules"]).pod.main(channel, seed)


if __name__ == "__main__":
    main()
