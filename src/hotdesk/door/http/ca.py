"""Certificates: an authority for each desk, a leaf for each host it calls, and the CAs that the door itself trusts."""

from __future__ import annotations

import os
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hotdesk.dataclass import dataclass

DAY = timedelta(hours=24)
_LEAF_SIDE = timedelta(hours=12)
"""How long a leaf is valid before and after its creation: a desk's clock may be wrong."""
LEAF_USE = timedelta(hours=6)
"""How long a leaf is used before another is issued."""
LEAVES = 256
"""Leaf certificates cached for one desk, one for each host."""
SESSIONS = 16
"""TLS 1.2 sessions one context may cache. OpenSSL's own limit is 20480, and Python cannot change it."""
COMMON_NAME = 64
"""Characters X.509 allows in a common name."""
_ALPN = ["http/1.1"]


def get_utc_now() -> datetime:
    return datetime.now(UTC)


class AuthorityEndedError(Exception):
    """A desk outlived its certificate authority, so no certificate it is shown would be trusted."""


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """A desk's own certificate authority."""

    certificate_pem: bytes
    """The certificate that the desk trusts."""
    key_pem: bytes = field(repr=False)
    """The private key, which no desk ever sees."""


def new_authority(desk_id: str, now: datetime, life: timedelta = DAY) -> CertificateAuthority:
    key = new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"hotdesk door of {desk_id}"[:COMMON_NAME])])
    builder = _begin_certificate(name, name, key.public_key(), now - DAY, now + life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_make_key_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return CertificateAuthority(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM), encode_key(key))


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


class Leaves:
    """The certificates shown to one desk for each host, made on first use."""

    def __init__(
        self,
        authority: CertificateAuthority,
        leaf_key: ec.EllipticCurvePrivateKey,
        scratch: Path,
        clock: Callable[[], datetime] = get_utc_now,
    ) -> None:
        self._issuer = x509.load_pem_x509_certificate(authority.certificate_pem)
        key = load_pem_private_key(authority.key_pem, password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._signer = key
        self._leaf_key = leaf_key
        self._scratch = scratch
        self._clock = clock
        self._contexts: OrderedDict[str, tuple[ssl.SSLContext, datetime]] = OrderedDict()

    def get_tls_context(self, host: str) -> ssl.SSLContext:
        """Return the server side of TLS for one host: a name in lower-case ASCII, or an address."""
        now = self._clock()
        context, created = self._contexts.pop(host, (None, now))
        if context is None or now - created > LEAF_USE or context.session_stats()["number"] > SESSIONS:
            context, created = _make_server_context(self._issue_leaf(host, now), self._leaf_key, self._scratch), now
        self._contexts[host] = (context, created)
        if len(self._contexts) > LEAVES:
            self._contexts.popitem(last=False)
        return context

    def _issue_leaf(self, host: str, now: datetime) -> x509.Certificate:
        if now >= self._issuer.not_valid_after_utc:
            raise AuthorityEndedError("this desk's certificate authority has expired; open another desk")
        since = max(now - _LEAF_SIDE, self._issuer.not_valid_before_utc)
        until = min(now + _LEAF_SIDE, self._issuer.not_valid_after_utc)
        builder = _begin_certificate(x509.Name([]), self._issuer.subject, self._leaf_key.public_key(), since, until)
        identifier = self._issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
        for extension, critical in (
            (x509.SubjectAlternativeName([make_general_name(host)]), True),
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_make_key_usage(signs_certificates=False), True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (authority, False),
        ):
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._signer, hashes.SHA256())


def _make_server_context(leaf: x509.Certificate, key: ec.EllipticCurvePrivateKey, scratch: Path) -> ssl.SSLContext:
    """Create the server side of TLS. `scratch` is a folder in memory; the file written there is removed on return."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    context.set_alpn_protocols(_ALPN)
    file = scratch / "leaf.pem"
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:
            out.write(leaf.public_bytes(Encoding.PEM) + encode_key(key))
        context.load_cert_chain(file)
    finally:
        file.unlink(missing_ok=True)
    return context


def make_upstream_context(extra_ca_pem: bytes | None = None) -> ssl.SSLContext:
    """Create the client side of TLS for upstreams: trust the host's trust store and, if given, one more bundle.

    Every file is read now, because the door has no file system later: OpenSSL would read a folder at each handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(_ALPN)
    for file in _list_trusted_files():
        try:
            context.load_verify_locations(cafile=file)
        except OSError:
            continue  # a folder of certificates has other files, too, and dangling links
    if extra_ca_pem:
        context.load_verify_locations(cadata=extra_ca_pem.decode("ascii"))
    return context


def _list_trusted_files() -> list[Path]:
    """List the files of the host's trust store: its bundle, or else the files of its folder."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        return [Path(paths.cafile)]
    return sorted(Path(paths.capath).glob("*.[0-9]")) if paths.capath else []


def _begin_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, since: datetime, until: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(since).not_valid_after(until)


def _make_key_usage(signs_certificates: bool) -> x509.KeyUsage:
    """Return the key usage extension: signing certificates, or TLS handshakes."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def make_general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Encode a private key without encryption: it goes to memory, or through a socket between our own processes."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
