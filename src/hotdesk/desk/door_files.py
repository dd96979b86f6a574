"""Variables and small files that make a desk's programs use and trust the door. Pure functions, no I/O but one shipped
file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from pathlib import Path

from hotdesk.desk.login_shell import NO_EGRESS

PROXY = "http://127.0.0.1:3128"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
"""The only file whose content is extended: the host's own bundle, followed by the desk's certificate authority."""
CERTIFICATE = "/usr/local/share/ca-certificates/hotdesk.crt"
JAVA_STORE = "/usr/local/share/hotdesk/java.jks"
_JAVA_PASSWORD = "changeit"  # noqa: S105 - every trust store of Java has it
NODE_PRELOAD = "/usr/local/share/hotdesk/proxy.js"
_NODE_SOURCE = Path(__file__).with_name("proxy.js")
LOCAL = "localhost,127.0.0.1,::1"
APT_CLOSED = "/run/hotdesk/no-egress.apt"
APT_CLOSED_SETTINGS = b'Acquire::Retries "0";\n'
APT_SETTINGS = "/etc/apt/apt.conf.d/91hotdesk-door"
BROWSERS = ("/etc/chromium", "/etc/opt/chrome", "/etc/opt/chrome_for_testing")
BROWSER_POLICY = "policies/managed/hotdesk.json"
COMMON_NAME = bytes.fromhex("0603550403")


def build_environment(proxy: str = PROXY, bundle: str = BUNDLE, certificate: str = CERTIFICATE) -> dict[str, str]:
    """Return the environment variables that make programs use the door and trust its certificate.

    Node is given only the one certificate: it has its own roots, and reading the bundle adds 0.1 s to each start.
    Releases without proxy support load a file that adds it. Java's variable is not among them, because Java prints a
    line for it at each start: see `build_java_environment`.
    """
    proxies = {"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy, "no_proxy": LOCAL}
    bundles = (
        "SSL_CERT_FILE",  # OpenSSL, and so Python, Ruby and Perl; Go; uv; httpx
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "PIP_CERT",
        "GIT_SSL_CAINFO",
        "npm_config_cafile",
        "AWS_CA_BUNDLE",
        "CARGO_HTTP_CAINFO",
    )
    return {
        **proxies,
        **{name.upper(): value for name, value in proxies.items()},
        **dict.fromkeys(bundles, bundle),
        "NODE_EXTRA_CA_CERTS": certificate,
        "NODE_USE_ENV_PROXY": "1",
        "NODE_OPTIONS": f"--require={NODE_PRELOAD}",
        "DENO_TLS_CA_STORE": "system",
    }


def read_node_preload() -> str:
    """Return the file that adds proxy support to releases of Node without it."""
    return _NODE_SOURCE.read_text()


def build_closed_environment() -> dict[str, str]:
    """Return the variables that make programs in a desk without egress fail at once, with the reason in their error.

    Servers inside the desk remain reachable. pip does not name its proxy in errors, only its index.
    """
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "ftp_proxy"), f"http://{NO_EGRESS}:3128")
    proxies["no_proxy"] = f"{LOCAL},0.0.0.0,127.0.0.0/8,::"
    return {
        **proxies,
        **{name.upper(): value for name, value in proxies.items()},
        "PIP_INDEX_URL": f"https://{NO_EGRESS}/simple",
        "PIP_RETRIES": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_HTTP_RETRIES": "0",
        "CARGO_NET_RETRY": "0",
        "npm_config_fetch_retries": "0",
        "APT_CONFIG": APT_CLOSED,
    }


def build_files(ca_pem: bytes, proxy: str = PROXY) -> dict[str, bytes]:
    """Return the desk's files by path, except the bundle. All belong to root and are readable by every user."""
    browser = f"{json.dumps(_build_browser_policy(ca_pem, proxy), indent=1)}\n".encode()
    return {
        CERTIFICATE: ca_pem,
        f"/etc/ssl/certs/{_compute_subject_hash(ca_pem)}.0": ca_pem,
        APT_SETTINGS: _format_apt_settings(proxy).encode(),
        JAVA_STORE: encode_java_store(ca_pem),
        NODE_PRELOAD: read_node_preload().encode(),
        **{f"{folder}/{BROWSER_POLICY}": browser for folder in BROWSERS},
    }


def _format_apt_settings(proxy: str) -> str:
    """Return apt's settings: apt runs as root, without a user's variables. Pipelining gains nothing here."""
    settings = {
        "Acquire::http::Proxy": proxy,
        "Acquire::https::Proxy": proxy,
        "Acquire::https::CAInfo": BUNDLE,
        "Acquire::http::Pipeline-Depth": "0",
    }
    return "".join(f'{name} "{value}";\n' for name, value in settings.items())


def _build_browser_policy(ca_pem: bytes, proxy: str) -> dict[str, object]:
    """Return Chromium's policy: Chromium reads neither the bundle nor, without desktop settings, the variables."""
    certificate = "".join(line for line in ca_pem.decode("ascii").split("\n") if not line.startswith("-----"))
    settings = {"ProxyMode": "fixed_servers", "ProxyServer": proxy, "ProxyBypassList": LOCAL}
    return {"CACertificates": [certificate], "ProxySettings": settings}


def _compute_subject_hash(ca_pem: bytes) -> str:
    """Return the file name under which OpenSSL looks a certificate up; programs without the variables find it there."""
    name = _read_common_name(ca_pem).lower().encode()
    value = COMMON_NAME + b"\x0c" + bytes([len(name)]) + name
    entry = b"\x30" + bytes([len(value)]) + value
    digest = hashlib.sha1(b"\x31" + bytes([len(entry)]) + entry, usedforsecurity=False).digest()
    return digest[3::-1].hex()


def _read_common_name(ca_pem: bytes) -> str:
    der = as_der(ca_pem)
    start = der.index(COMMON_NAME) + len(COMMON_NAME) + 2
    return der[start : start + der[start - 1]].decode("ascii")


def as_der(ca_pem: bytes) -> bytes:
    return base64.b64decode(b"".join(line for line in ca_pem.splitlines() if not line.startswith(b"-----")))


def build_java_environment(proxy: str = PROXY, store: str = JAVA_STORE) -> dict[str, str]:
    host, port = proxy.removeprefix("http://").split(":")
    settings = {
        **{f"{scheme}.proxyHost": host for scheme in ("http", "https")},
        **{f"{scheme}.proxyPort": port for scheme in ("http", "https")},
        "http.nonProxyHosts": LOCAL.replace(",", "|").replace("::1", "[::1]"),
        "javax.net.ssl.trustStore": store,
        "javax.net.ssl.trustStorePassword": _JAVA_PASSWORD,
    }
    return {"JAVA_TOOL_OPTIONS": " ".join(f"-D{name}={value}" for name, value in settings.items())}


def encode_java_store(ca_pem: bytes) -> bytes:
    der = as_der(ca_pem)
    entry = struct.pack(">I", 2) + _encode_java_text("hotdesk") + struct.pack(">Q", 0)
    body = (
        struct.pack(">III", 0xFEEDFEED, 2, 1) + entry + _encode_java_text("X.509") + struct.pack(">I", len(der)) + der
    )
    salted = _JAVA_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + hashlib.sha1(salted, usedforsecurity=False).digest()


def _encode_java_text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
