"""What a hostile desk sends its door, as rows, and the program inside that sends it."""

from __future__ import annotations

TOOLS = """
import base64, hashlib, ssl, threading
CA = "/etc/ssl/certs/ca-certificates.crt"

def dial(seconds=20):
    return socket.create_connection(("127.0.0.1", 3128), timeout=seconds)

def read(file, method="GET"):
    '''Read one answer as a strict client does; one that breaks off is not whole.'''
    told = {"status": 0, "headers": {}, "body": "", "whole": False}
    try:
        line = file.readline()
        if not line:
            return told
        told["status"] = int(line.split()[1])
        told["reason"] = line.decode("latin-1")
        while (each := file.readline()) not in (b"\\r\\n", b""):
            name, _, value = each.decode("latin-1").partition(":")
            told["headers"][name.lower()] = value.strip()
        body = b""
        if method == "HEAD" or told["status"] in (204, 304) or told["status"] < 200:
            told["whole"] = True
        elif "content-length" in told["headers"]:
            length = int(told["headers"]["content-length"])
            body = file.read(length)
            told["whole"] = len(body) == length
        elif told["headers"].get("transfer-encoding") == "chunked":
            while size := int(file.readline() or b"0", 16):
                body += file.read(size)
                file.readline()
            told["whole"] = file.readline() == b"\\r\\n"
        else:
            body = file.read()
            told["whole"] = True
        told["body"] = body.decode("latin-1")
    except OSError as e:
        told["error"] = repr(e)
    return told

def connect(host, sni=None, seconds=20, port=443):
    '''Open an intercepted connection; give it, or the status that refused.'''
    s = dial(seconds)
    s.sendall(("CONNECT %s:%d HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n" % (host, port, host, port)).encode())
    status = read(s.makefile("rb", 0), "HEAD")["status"]
    if status != 200:
        raise OSError(status, "refused")
    context = ssl.create_default_context(cafile=CA)
    if sni is None:
        return context.wrap_socket(s, server_hostname=host)
    context.check_hostname = False
    return context.wrap_socket(s, server_hostname=sni or None)

def ask(s, data, method="GET"):
    '''Send bytes and read one answer.'''
    try:
        s.sendall(data.encode("latin-1") if isinstance(data, str) else data)
    except OSError:
        pass
    with s.makefile("rb") as file:
        return read(file, method)

def get(host, path, method="GET"):
    return "%s %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (method, path, host)

def try_row(via, data):
    try:
        with (connect(via) if via else dial()) as s:
            return ask(s, data)
    except OSError as e:
        return {"status": 0, "headers": {}, "body": repr(e), "whole": False}
"""
BODY = "5\r\nhello\r\n0\r\n\r\n"
CHUNKED = "POST PATH HTTP/1.1\r\nHost: erp.test\r\nTransfer-Encoding: chunked\r\n\r\n"


def sent(*lines: str, first: str = "GET PATH HTTP/1.1", body: str = "") -> tuple[str, str]:
    named = () if any(line.lower().startswith("host") for line in lines) else ("Host: erp.test",)
    return "erp.test", "\r\n".join((first, *named, *lines, "", body))


def posted(*lines: str, body: str = BODY) -> tuple[str, str]:
    return sent(*lines, first="POST PATH HTTP/1.1", body=body)


def chunks(body: str) -> tuple[str, str]:
    return "erp.test", CHUNKED + body


def proxied(line: str, host: str) -> tuple[str, str]:
    return "", f"{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"


def tunnelled(where: str, host: str = "") -> tuple[str, str]:
    return "", f"CONNECT {where} HTTP/1.1\r\nHost: {host or where}\r\n\r\n"


FRAMES: dict[str, tuple[str, str]] = {
    "a length and chunks": posted("Content-Length: 5", "Transfer-Encoding: chunked"),
    "chunks and a length": posted("Transfer-Encoding: chunked", "Content-Length: 15"),
    "the same length twice": posted("Content-Length: 5", "Content-Length: 5", body="hello"),
    "two lengths": posted("Content-Length: 5", "Content-Length: 4", body="hello"),
    "a list of lengths": posted("Content-Length: 5, 5", body="hello"),
    "a length with a sign": posted("Content-Length: +5", body="hello"),
    "a length with an underscore": posted("Content-Length: 0_5", body="hello"),
    "a length's name with an underscore": posted("Content_Length: 5", body="hello"),
    "a length and its name with an underscore": posted("Content-Length: 5", "CONTENT_LENGTH: 0", body="hello"),
    "a length's name with a dot": posted("Content-Length: 5", "Content.Length: 0", body="hello"),
    "a coding's name with an underscore": posted("Content-Length: 15", "Transfer_Encoding: chunked"),
    "a packing's name with an underscore": posted("Content-Length: 5", "Content_Encoding: gzip", body="hello"),
    "a type's name with an underscore": posted("Content-Length: 5", "Content_Type: text/plain", body="hello"),
    "a proxy's name with an underscore": sent("Proxy_Connection: close"),
    "a length in hexadecimal": posted("Content-Length: 0x5", body="hello"),
    "a length of many digits": posted("Content-Length: " + "0" * 30 + "5", body="hello"),
    "xchunked": posted("Transfer-Encoding: xchunked"),
    "chunked twice": posted("Transfer-Encoding: chunked, chunked"),
    "two codings": posted("Transfer-Encoding: gzip, chunked"),
    "identity": posted("Transfer-Encoding: identity"),
    "chunked with a parameter": posted("Transfer-Encoding: chunked;q=1"),
    "two headers of codings": posted("Transfer-Encoding: identity", "Transfer-Encoding: chunked"),
    "chunks in HTTP 1.0": sent("Transfer-Encoding: chunked", first="POST PATH HTTP/1.0", body=BODY),
    "a space before a colon": posted("Content-Length : 5", body=""),
    "a space before a header": sent(" X-A: b"),
    "a folded header": sent("X-A: b", "\tc"),
    "a header without a colon": sent("X-A"),
    "a header without a name": sent(": b"),
    "a bare line feed in a header": sent("X-A: b\nX-B: c"),
    "a bare carriage return in a header": sent("X-A: b\rX-B: c"),
    "a zero byte in a header": sent("X-A: b\0c"),
    "a line end of another script": sent("X-A: b\x85c"),
    "a control character in a header": sent("X-A: b\x0bc"),
    "bare line feeds": ("erp.test", "GET PATH HTTP/1.1\nHost: erp.test\n\n"),
    "a head of 70 KB": sent("X-A: " + "a" * 70_000),
    "200 headers": sent(*["X-A: b"] * 200),
    "a first line of 20 KB": sent(first="GET PATH?" + "a" * 20_000 + " HTTP/1.1"),
    "no Host": ("erp.test", "GET PATH HTTP/1.1\r\nX-A: b\r\n\r\n"),
    "HTTP 1.2": sent(first="GET PATH HTTP/1.2"),
    "HTTP 2.0 in words": sent(first="GET PATH HTTP/2.0"),
    "no version": sent(first="GET PATH"),
    "two spaces": sent(first="GET  PATH HTTP/1.1"),
    "a tab": sent(first="GET\tPATH HTTP/1.1"),
    "a method in small letters": sent(first="get PATH HTTP/1.1"),
    "a method nobody knows": sent(first="FROB PATH HTTP/1.1"),
    "TRACE": sent(first="TRACE PATH HTTP/1.1"),
    "another expectation": posted("Content-Length: 5", "Expect: 200-maybe", body="hello"),
    "an upgrade to another protocol": sent("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"),
    "a chunk size with a sign": chunks("+5\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with 0x": chunks("0x5\r\nhello\r\n0\r\n\r\n"),
    "a chunk extension": chunks("5;a=b\r\nhello\r\n0\r\n\r\n"),
    "a space before a chunk size": chunks(" 5\r\nhello\r\n0\r\n\r\n"),
    "a space after a chunk size": chunks("5 \r\nhello\r\n0\r\n\r\n"),
    "a chunk that ends in a line feed": chunks("5\r\nhello\n0\r\n\r\n"),
    "a chunk size that ends in a line feed": chunks("5\nhello\r\n0\r\n\r\n"),
    "a chunk without an end": chunks("5\r\nhello0\r\n\r\n"),
    "a chunk longer than said": chunks("3\r\nhello\r\n0\r\n\r\n"),
    "a chunk size of 17 digits": chunks("00000000000000005\r\nhello\r\n0\r\n\r\n"),
    "a trailer that names a length": chunks("5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n"),
    "a trailer that names a host": chunks("5\r\nhello\r\n0\r\nHost: other.test\r\n\r\n"),
    "a trailer of 20 KB": chunks("5\r\nhello\r\n0\r\nX-A: " + "a" * 20_000 + "\r\n\r\n"),
}
"""Framing that two parsers might read differently: each is refused and reaches no host."""
MEANT: dict[str, tuple[str, str]] = {
    "an address that is none of the Host's": proxied("GET http://plain.testPATH", "erp.test"),
    "another Host inside TLS": sent("Host: other.test"),
    "a target for another host inside TLS": sent("Host: other.test", first="GET https://other.testPATH HTTP/1.1"),
    "a target that disagrees with the Host inside TLS": sent(first="GET https://other.testPATH HTTP/1.1"),
    "another scheme inside TLS": sent(first="GET http://erp.testPATH HTTP/1.1"),
    "two Hosts": sent("Host: erp.test", "Host: other.test"),
    "the same Host twice": sent("Host: erp.test", "Host: erp.test"),
    "an empty Host": sent("Host:"),
    "another port in the Host": sent("Host: erp.test:8443"),
    "a name and a password in the Host": sent("Host: user:pass@erp.test"),
    "a name in the Host": sent("Host: other.test@erp.test"),
    "a name in the target": proxied("GET http://erp.test@plain.testPATH", "plain.test"),
    "percent forms in the Host": sent("Host: erp%2etest"),
    "percent forms in the target": proxied("GET http://plain%2etestPATH", "plain.test"),
    "two trailing dots": sent("Host: erp.test.."),
    "a homograph in bytes": sent("Host: \xd0\xb5rp.test"),
    "a homograph in punycode": sent("Host: xn--rp-6kc.test"),
    "a backslash in the target": proxied("GET http://plain.test\\@other.testPATH", "plain.test"),
    "no host in the target": proxied("GET PATH", "plain.test"),
    "a target of another scheme": proxied("GET ftp://plain.testPATH", "plain.test"),
    "https without CONNECT": proxied("GET https://plain.testPATH", "plain.test"),
    "an asterisk": sent(first="OPTIONS * HTTP/1.1"),
    "a host that only ends like an allowed one": tunnelled("evilwild.test:443"),
    "a host that only begins like an allowed one": tunnelled("wild.test.evil.test:443"),
    "the name above a wildcard": tunnelled("wild.test:443"),
    "a denied host": tunnelled("localhost:443"),
    "a denied port": tunnelled("erp.test:22"),
    "the address of an allowed host": tunnelled("UPSTREAM"),
    "loopback": tunnelled("127.0.0.1:443"),
    "loopback on IPv6": tunnelled("[::1]:443"),
    "the gate": tunnelled("127.0.0.1:3128"),
    "the door by its name": tunnelled("door.local:80"),
    "a path": tunnelled("/run/hotdesk.sock:443", "erp.test"),
    "a unix socket": tunnelled("unix:/run/hotdesk.sock", "erp.test"),
    "a CONNECT for another Host": tunnelled("erp.test:443", "other.test:443"),
    "a CONNECT without a port": tunnelled("erp.test"),
    "a CONNECT with a body": ("", "CONNECT erp.test:443 HTTP/1.1\r\nHost: erp.test:443\r\nContent-Length: 5\r\n\r\n"),
    "bytes behind a CONNECT": ("", "CONNECT erp.test:443 HTTP/1.1\r\nHost: erp.test:443\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
    "a CONNECT inside a CONNECT": ("erp.test", "CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n"),
    "loopback as one number": proxied("GET http://2130706433:PORTPATH", "2130706433:PORT"),
    "loopback in hexadecimal": proxied("GET http://0x7f000001:PORTPATH", "0x7f000001:PORT"),
    "loopback in two parts": proxied("GET http://127.1:PORTPATH", "127.1:PORT"),
    "loopback as a mapped address": proxied("GET http://[::ffff:127.0.0.1]:PORTPATH", "[::ffff:127.0.0.1]:PORT"),
    "loopback in octal": proxied("GET http://0177.0.0.1:PORTPATH", "0177.0.0.1:PORT"),
    "an allowed name of loopback": proxied("GET http://localhost:PORTPATH", "localhost:PORT"),
}  # fmt: skip
"""Requests for one host that look like another, or that lead to internal addresses: each is refused."""
SAME = {
    "in capitals": "ERP.TEST",
    "with a trailing dot": "erp.test.",
    "with its port": "erp.test:443",
    "all of it": "Erp.Test.:443",
}
"""Spellings of one host name."""
AWAY = {
    "a name by libc": ("look('data.evil.test')", "unknown"),
    "a name by UDP 53": ("send('1.1.1.1', 53)", "ENETUNREACH"),
    "a name by TCP 53": ("reach('1.1.1.1', 53)", "ENETUNREACH"),
    "a name over TLS": ("reach('1.1.1.1', 853)", "ENETUNREACH"),
    "a name over HTTPS": ("reach('1.1.1.1', 443)", "ENETUNREACH"),
    "QUIC": ("send('1.1.1.1', 443)", "ENETUNREACH"),
    "QUIC on IPv6": ("send('2606:4700::1111', 443)", "ENETUNREACH"),
    "the time": ("send('1.1.1.1', 123)", "ENETUNREACH"),
    "a name by its own loopback": ("send_twice('127.0.0.1', 53)", "ECONNREFUSED"),
}
"""Ways around the door, tried from a desk that has one; `test_network_attacks` has those of a desk without one."""
AWAY_TOOLS = """
def look(host):
    try:
        return [found[4][0] for found in socket.getaddrinfo(host, 80)]
    except socket.gaierror:
        return "unknown"

def made(host, kind):
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)

def reach(host, port):
    with made(host, socket.SOCK_STREAM) as s:
        s.settimeout(3)
        return attempt(s.connect, (host, port))

def send(host, port):
    with made(host, socket.SOCK_DGRAM) as s:
        return attempt(s.sendto, b"x", (host, port))

def send_twice(host, port):
    with made(host, socket.SOCK_DGRAM) as s:
        s.connect((host, port))
        attempt(s.send, b"x")
        time.sleep(0.05)
        return attempt(s.send, b"x")

tell({name: eval(expression) for name, expression in given["rows"].items()})
"""
INWARD = {
    "loopback": "127.0.0.1",
    "loopback elsewhere": "127.8.9.10",
    "loopback on IPv6": "::1",
    "loopback mapped": "::ffff:127.0.0.1",
    "loopback by NAT64": "64:ff9b::7f00:1",
    "loopback by 6to4": "2002:7f00:1::",
    "loopback in a network's own NAT64": "64:ff9b:1::7f00:1",
    "loopback as a compatible address": "::127.0.0.1",
    "loopback as a translated address": "::ffff:0:127.0.0.1",
    "any address": "0.0.0.0",
    "any address on IPv6": "::",
    "a private network": "10.1.2.3",
    "a private network by 6to4": "2002:a01:203::",
    "a private network by NAT64": "64:ff9b::a01:203",
    "a private network by Teredo": "2001:0:a01:203::1",
    "a router of 6to4's": "2002:808:808::1",
    "a server of Teredo's": "2001:0:808:808::f7f7:f7f7",
    "a private network on IPv6": "fd12::1",
    "a carrier's network": "100.64.1.1",
    "link-local": "169.254.1.1",
    "link-local on IPv6": "fe80::1",
    "metadata": "169.254.169.254",
    "metadata on IPv6": "fd00:ec2::254",
    "metadata mapped": "::ffff:169.254.169.254",
    "metadata by NAT64": "64:ff9b::a9fe:a9fe",
    "Alibaba's metadata": "100.100.100.200",
    "Azure's metadata": "168.63.129.16",
    "this host": "198.41.0.4",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
}
"""Addresses that an allowed name must not resolve to."""
