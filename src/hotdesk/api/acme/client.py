"""An ACME client (RFC 8555) for one account: an order, its http-01 challenges, a certificate. Blocking; bounded."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from hotdesk.api.acme.jws import AccountKey, encode
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

MAX_REPLY_BYTES = 256 << 10
REQUEST_TIMEOUT_S = 20.0
ORDER_TIMEOUT_S = 300.0
"""Seconds an order may take in total."""
_NONCE_TRIES = 3
_POLL_S, _MAX_POLL_S = 1.0, 15.0
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")
_NONCE = re.compile(r"[A-Za-z0-9_-]{1,500}")
_BAD_NONCE = "urn:ietf:params:acme:error:badNonce"


class AcmeError(Exception):
    """No certificate was obtained; the message is the reason."""


@dataclass(frozen=True, slots=True)
class AcmeReply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def read_json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise AcmeError("the certificate authority's reply is not a JSON object")
        return value


@dataclass(slots=True)
class AcmeClient:
    """Speaks with one authority, for one account."""

    directory: str
    key: AccountKey
    trust: ssl.SSLContext
    email: str = ""
    places: dict[str, str] = field(default_factory=dict)
    account: str = ""
    nonce: str = ""

    def obtain(self, names: Sequence[str], publish: Callable[[str, str], None]) -> bytes:
        """Obtain a certificate; return its key and chain in PEM. `publish` makes the response to a token public."""
        end = time.monotonic() + ORDER_TIMEOUT_S
        self._register()
        order, place = self._place_order(names)
        for url in order["authorizations"]:
            self._authorize(str(url), publish, end)
        key = ec.generate_private_key(ec.SECP256R1())
        request = _build_request(key, names)
        self.post(str(order["finalize"]), {"csr": encode(request)})
        done = self._poll(place, end)
        chain = self.post(str(done["certificate"]), None).body
        _check_chain(chain, key, names)
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + chain

    def _register(self) -> None:
        """Read the directory, and register the account; the same key has the same account."""
        found = self.send_request("GET", self.directory).read_json()
        self.places = {name: str(found[name]) for name in ("newNonce", "newAccount", "newOrder") if name in found}
        if len(self.places) < 3:
            raise AcmeError(
                "the certificate authority's directory lacks newNonce, newAccount or newOrder; check its URL"
            )
        contact = {"contact": [f"mailto:{self.email}"]} if self.email else {}
        reply = self.post(self.places["newAccount"], {"termsOfServiceAgreed": True, **contact})
        self.account = reply.headers.get("location", "")
        if not self.account:
            raise AcmeError("the certificate authority's reply to newAccount has no Location header")

    def _place_order(self, names: Sequence[str]) -> tuple[dict[str, Any], str]:
        """Order a certificate; return the order and its URL."""
        reply = self.post(self.places["newOrder"], {"identifiers": [{"type": "dns", "value": name} for name in names]})
        order = reply.read_json()
        if not isinstance(order.get("authorizations"), list) or not isinstance(order.get("finalize"), str):
            raise AcmeError("the certificate authority's order has no authorizations or no finalize URL")
        return order, reply.headers.get("location", "")

    def _authorize(self, url: str, publish: Callable[[str, str], None], end: float) -> None:
        found = self.post(url, None).read_json()
        if found.get("status") == "valid":
            return
        listed = [each for each in found.get("challenges", ()) if isinstance(each, dict)]
        challenge = next((each for each in listed if each.get("type") == "http-01"), None)
        token = str((challenge or {}).get("token", ""))
        if challenge is None or not _TOKEN.fullmatch(token):
            named = found.get("identifier")
            name = make_printable(str(named.get("value", ""))[:253]) if isinstance(named, dict) else "a host name"
            raise AcmeError(
                f"the certificate authority offers no http-01 challenge for {name}, the only kind of proof that this "
                "server supports"
            )
        publish(token, f"{token}.{self.key.thumbprint}")
        self.post(str(challenge["url"]), {})
        self._poll(url, end)

    def _poll(self, url: str, end: float) -> dict[str, Any]:
        """Poll until an order or an authorization is valid."""
        while True:
            reply = self.post(url, None)
            found = reply.read_json()
            status = str(found.get("status"))
            if status == "valid":
                return found
            if status not in ("pending", "processing", "ready"):
                raise AcmeError(
                    f"the certificate authority rejected the order for a certificate (status "
                    f"{make_printable(status[:40])}): {describe_problem(found)}"
                )
            pause = reply.headers.get("retry-after", "")
            seconds = float(pause) if pause.isdecimal() and len(pause) < 6 else _POLL_S
            if time.monotonic() + seconds > end:
                raise AcmeError(
                    f"the certificate authority did not finish the validation within {ORDER_TIMEOUT_S / 60:.0f} minutes"
                )
            time.sleep(min(max(seconds, _POLL_S), _MAX_POLL_S))

    def post(self, url: str, payload: object) -> AcmeReply:
        """Send a signed message; with a rejected nonce, try again with a new one."""
        for _ in range(_NONCE_TRIES):
            protected: dict[str, object] = {"nonce": self.nonce or self._new_nonce(), "url": url}
            self.nonce = ""
            protected |= {"kid": self.account} if self.account else {"jwk": self.key.jwk}
            reply = self.send_request("POST", url, self.key.sign(protected, payload))
            if reply.status < 400:
                return reply
            problem = reply.read_json()
            if problem.get("type") != _BAD_NONCE:
                raise AcmeError(
                    f"the certificate authority responded with status {reply.status}: {describe_problem(problem)}"
                )
        raise AcmeError(
            f"the certificate authority rejected the nonces of {_NONCE_TRIES} requests in a row, although it had "
            "issued them"
        )

    def _new_nonce(self) -> str:
        self.send_request("HEAD", self.places["newNonce"])
        if not self.nonce:
            raise AcmeError("the certificate authority sent no valid Replay-Nonce header")
        return self.nonce

    def send_request(self, method: str, url: str, body: bytes | None = None) -> AcmeReply:
        """Send one request, over https only, whatever URL the authority returned."""
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise AcmeError(f"the URL of the certificate authority is not https: {make_printable(url[:200])}")
        line = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"User-Agent": "hotdesk", **({"Content-Type": "application/jose+json"} if body is not None else {})}
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port or 443, timeout=REQUEST_TIMEOUT_S, context=self.trust
        )
        try:
            connection.request(method, line, body, headers)
            answer = connection.getresponse()
            data = answer.read(MAX_REPLY_BYTES + 1)
            fields = {name.lower(): value for name, value in answer.getheaders()}
        except (OSError, http.client.HTTPException) as e:
            raise AcmeError(
                f"the certificate authority {parts.hostname} cannot be reached: "
                f"{getattr(e, 'strerror', None) or type(e).__name__}"
            ) from None
        finally:
            connection.close()
        if len(data) > MAX_REPLY_BYTES:
            raise AcmeError(f"the certificate authority's reply has more than {MAX_REPLY_BYTES} bytes")
        if _NONCE.fullmatch(fields.get("replay-nonce", "")):
            self.nonce = fields["replay-nonce"]
        return AcmeReply(answer.status, fields, data)


def describe_problem(found: Mapping[str, Any]) -> str:
    inner = [found.get("error"), *(each.get("error") for each in found.get("challenges", ()) if isinstance(each, dict))]
    problem = next((each for each in inner if isinstance(each, dict)), found)
    return make_printable(f"{problem.get('type', '')} {problem.get('detail', '')}".strip()[:300]) or "no reason given"


def _build_request(key: ec.EllipticCurvePrivateKey, names: Sequence[str]) -> bytes:
    """Return a certificate signing request in DER."""
    listed = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(listed, critical=False)
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


def _check_chain(chain: bytes, key: ec.EllipticCurvePrivateKey, names: Sequence[str]) -> None:
    try:
        leaf = x509.load_pem_x509_certificates(chain)[0]
    except (ValueError, IndexError):
        raise AcmeError("the certificate that the authority issued is not valid PEM") from None
    raw = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if leaf.public_key().public_bytes(*raw) != key.public_key().public_bytes(*raw) or list_names(leaf) != set(names):
        raise AcmeError("the certificate that the authority issued is not for the requested key and host names")


def list_names(leaf: x509.Certificate) -> set[str]:
    try:
        listed = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return set(listed.get_values_for_type(x509.DNSName))
