"""What makes programs in a desk use its door and believe it: variables, and files. Standard library only."""

from __future__ import annotations

PROXY = "http://127.0.0.1:3128"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"


def environment() -> dict[str, str]:
    """Give the variables by which programs find the door."""
    file = f"/{BUNDLE}"
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), PROXY)
    nobody = dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1")
    bundles = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO")
    return {**proxies, **nobody, **dict.fromkeys((*bundles, "NODE_EXTRA_CA_CERTS"), file), "NODE_USE_ENV_PROXY": "1"}


def files(ca: str) -> dict[str, str]:
    """Give the files a desk's writable layer begins with; `BUNDLE` goes behind what the host itself trusts."""
    return {BUNDLE: ca}
