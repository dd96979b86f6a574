"""The canaries: a program that runs inside a new desk, tries every way out, and reports the results.

It judges nothing, and imports only modules written in C, because the opening of a desk waits for it.
`hotdesk/door/selftest.py` passes its arguments, and judges.
"""

import _socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GATE = ("127.0.0.1", 3128)
MAX_ANSWER_BYTES = 4096
NAME = b"example.com"
OTHER = "other.invalid"


class Socket(_socket.socket):
    """A socket for TLS, which requires weak references: instances of a Python class support them."""


def knock(kind: int, host: str, port: int) -> int:
    """Begin a connection; return the immediate error number. 0 or EINPROGRESS mean that a way out exists."""
    try:
        sock = _socket.socket(_socket.AF_INET6 if ":" in host else _socket.AF_INET, kind)
        sock.setblocking(False)
        return sock.connect_ex((host, port))
    except OSError as e:
        return e.errno or -1


def call(family: int, kind: int, address: "tuple[str, int] | bytes", seconds: float) -> int:
    """Send a byte to a listener on this machine; return the error number, 0 if accepted, -1 if there was no answer."""
    try:
        sock = _socket.socket(family, kind)
        sock.settimeout(seconds / 10)
        sock.connect(address)
        if kind == _socket.SOCK_DGRAM:
            sock.send(b"\0")
            sock.recv(1)
        return 0
    except OSError as e:
        return e.errno or -1


def resolve() -> int:
    """Look a name up like a program; return 1 if it was found, else 0."""
    try:
        return int(bool(_socket.getaddrinfo(NAME, 80)))
    except OSError:
        return 0


def ask(where: bytes, seconds: float) -> Socket:
    """Request a connection from the door; return the socket."""
    sock = Socket()
    sock.settimeout(seconds)
    sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    try:
        sock.connect(GATE)
        sock.send(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (where, where))
    except OSError:
        pass
    return sock


def read_status(sock: Socket) -> int:
    """Return the HTTP status of the door's answer, or 0 if there was none."""
    data = b""
    try:
        while b"\r\n\r\n" not in data and (more := sock.recv(MAX_ANSWER_BYTES)):
            data += more
        return int(data[9:12]) if data.startswith(b"HTTP/1.1 ") else 0
    except (OSError, ValueError):
        return 0


def make_tls_context(file: str) -> "Any":
    """Return a client's TLS context that trusts only the last certificate of the desk's bundle, which is its door's."""
    import _ssl  # imported once the first requests are under way, because importing takes longer than they do

    with open(file, "rb") as bundle:
        text = bundle.read()
    context = _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=text[text.rindex(b"-----BEGIN CERTIFICATE") :].decode())
    return context


def secure(context: "Any", sock: Socket, name: str) -> "Any":
    tls = context._wrap_socket(sock, False, name)
    tls.do_handshake()
    return tls


def request(tls: "Any", host: str, placeholder: str) -> bytes:
    head = "GET /canary HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n"
    tls.write((head % (host, placeholder)).encode())
    data = b""
    while not is_whole(data):
        more = tls.read(MAX_ANSWER_BYTES)
        data += more
        if not more or len(data) > MAX_ANSWER_BYTES:
            break
    return data


def is_whole(data: bytes) -> bool:
    """Return whether an answer is complete; every body here ends with a line end."""
    head, _, body = data.partition(b"\r\n\r\n")
    return body.endswith(b"\r\n0\r\n\r\n" if b"chunked" in head else b"\n")


def _try_work(work: "Callable[..., object]", *arguments: object) -> str:
    """Call a function; return its result or its error in hexadecimal."""
    try:
        result = work(*arguments)
        return (result if isinstance(result, bytes) else b"nothing went wrong")[:MAX_ANSWER_BYTES].hex()
    except Exception as e:  # noqa: BLE001 - any error is part of the report
        return ascii(e).encode()[:MAX_ANSWER_BYTES].hex()


def main(
    nonce: str, placeholder: str, echo: str, file: str, port: str, name: str, far: str, near: str, seconds: str
) -> None:
    """Try every way out; wait at most these seconds for each answer."""
    limit = float(seconds)
    calls = [ask(where.encode(), limit) for where in (f"{echo}:443", f"{echo}:443", *near.split())]
    kinds = {"tcp": _socket.SOCK_STREAM, "udp": _socket.SOCK_DGRAM}
    knocks = [knock(kinds[kind], host, int(port)) for kind, host, port in (one.split("|") for one in far.split())]
    local = [
        call(_socket.AF_INET, _socket.SOCK_DGRAM, ("127.0.0.1", int(port)), limit),
        call(_socket.AF_UNIX, _socket.SOCK_STREAM, b"\0" + name.encode(), limit),
        call(_socket.AF_INET, _socket.SOCK_STREAM, ("127.0.0.1", 53), limit),
        call(_socket.AF_INET, _socket.SOCK_DGRAM, ("127.0.0.1", 53), limit),
    ]
    local.append(resolve() if local[3] > 0 else -1)
    outcomes = ["", "", ""]
    answers: list[int] = []
    sessions: list[Any] = []

    def speak() -> bytes:
        context = make_tls_context(file)
        answers.extend(map(read_status, calls))
        outcomes[0] = _try_work(secure, context, calls[0], OTHER)
        sessions.append(secure(context, calls[1], echo))
        return request(sessions[0], echo, placeholder)

    outcomes[1] = _try_work(speak)
    outcomes[2] = _try_work(lambda: request(sessions[0], OTHER, placeholder))
    numbers = f'"knocks":{knocks},"local":{local},"answers":{answers}'
    texts = f'"sni":"{outcomes[0]}","echo":"{outcomes[1]}","host":"{outcomes[2]}"'
    sys.stdout.write(f'{{"nonce":"{nonce}",{numbers},{texts}}}')
