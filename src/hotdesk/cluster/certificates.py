"""Certificates of nodes and servers, issued by one authority that the operator holds.

A node's certificate is for answering and a server's is for calling (extended key usage), so neither can be used as the
other. Role and name are in it as a URI: `hotdesk:node:NAME`, `hotdesk:server:NAME`. A pool's certificate,
`hotdesk:node:*`, is for agents that share one identity, as those of a DaemonSet do: each reports its own name.
"""

from __future__ import annotations

import datetime
import math
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hotdesk.cluster.names import check_name
from hotdesk.errors import BriefError, HostError
from hotdesk.linux import private_files

Role = Literal["node", "server"]
ANY_NODE = "*"
AUTHORITY, CERTIFICATE, PRIVATE_KEY = "authority.pem", "certificate.pem", "private.key"
_AUTHORITY_DAYS = 3650
_CLOCK_SKEW = datetime.timedelta(minutes=5)
_USAGE = {"node": ExtendedKeyUsageOID.SERVER_AUTH, "server": ExtendedKeyUsageOID.CLIENT_AUTH}


def enroll(authority: Path, role: Role, name: str, folder: Path, days: float) -> None:
    """Write a certificate, its private key and the authority's certificate into a folder.

    The authority's own key is made by the first call, in its own folder; it is needed for nothing else.
    """
    if name != ANY_NODE or role != "node":
        name = check_name(name)
    issuer, key = _load_authority(authority)
    own = ec.generate_private_key(ec.SECP256R1())
    private_files.make_folder(folder)
    if (folder / PRIVATE_KEY).exists():
        raise BriefError(
            f"the folder {folder} already has the key of a node or server; add --renew to renew its certificate, or "
            "choose another folder with --out"
        )
    private_files.write(folder, AUTHORITY, issuer.public_bytes(Encoding.PEM))
    private_files.write(folder, CERTIFICATE, _issue(issuer, key, role, name, own.public_key(), days))
    private_files.write(folder, PRIVATE_KEY, _as_pem(own))


def renew(authority: Path, role: Role, name: str, folder: Path, days: float) -> None:
    """Replace the certificate in a folder that `enroll` wrote. The key stays, so that only one file changes."""
    if (found := read_name(folder, role)) != (name if name == ANY_NODE else check_name(name)):
        raise BriefError(f"the certificate in {folder} is for {found}, not for {name}; pass the name it has")
    if not (authority / PRIVATE_KEY).exists():
        raise BriefError(f"there is no certificate authority in {authority}; pass the folder that enrolled {name}")
    issuer, key = _load_authority(authority)
    own, authority_pem = _load_key(folder), private_files.read(folder, AUTHORITY, public=True)
    if authority_pem != issuer.public_bytes(Encoding.PEM):
        raise BriefError(
            f"the certificate in {folder} is from another authority than {authority}; pass the folder of that "
            "authority, or enroll to a new folder"
        )
    private_files.write(folder, CERTIFICATE, _issue(issuer, key, role, found, own.public_key(), days))


def _load_key(folder: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(private_files.read(folder, PRIVATE_KEY) or b"", None)
    except (ValueError, TypeError) as e:
        raise HostError(f"{folder / PRIVATE_KEY} is not a private key: {e}; enroll again to a new folder") from e
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise HostError(f"{folder / PRIVATE_KEY} is not an elliptic-curve key; enroll again to a new folder")
    return key


def _issue(
    issuer: x509.Certificate, key: ec.EllipticCurvePrivateKey, role: Role, name: str, own: ec.EllipticCurvePublicKey,
    days: float,
) -> bytes:  # fmt: skip
    """Return a new certificate for a public key, in PEM."""
    certificate = (
        _begin(f"hotdesk {role} {name}", days)
        .issuer_name(issuer.subject)
        .public_key(own)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_USAGE[role]]), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(_format_uri(role, name))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM)


def _load_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the authority in a folder; create it if there is none."""
    private_files.make_folder(folder)
    pem = private_files.read(folder, PRIVATE_KEY)
    if pem is None:
        made_key = ec.generate_private_key(ec.SECP256R1())
        private_files.write(folder, AUTHORITY, _make_authority(made_key).public_bytes(Encoding.PEM))
        private_files.write(folder, PRIVATE_KEY, pem := _as_pem(made_key))
    try:
        key = load_pem_private_key(pem, None)
        certificate = x509.load_pem_x509_certificate(private_files.read(folder, AUTHORITY) or b"")
    except (ValueError, TypeError) as e:
        raise HostError(
            f"the certificate authority in {folder} cannot be used: {e}; restore that folder, or choose another with "
            "--authority"
        ) from e
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise HostError(
            f"{folder / PRIVATE_KEY} is not the key of a certificate authority; restore it, or choose another folder "
            "with --authority"
        )
    return certificate, key


def _make_authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    builder = _begin("hotdesk cluster authority", _AUTHORITY_DAYS).public_key(key.public_key())
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    return (
        builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hotdesk cluster authority")]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _begin(subject: str, days: float) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject[:64])]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _as_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _format_uri(role: Role, name: str) -> str:
    return f"hotdesk:{role}:{name}"


def describe_enrolment(folder: Path, role: Role) -> str:
    """Return the command that writes an identity to a folder."""
    name = "--server NAME" if role == "server" else "NAME"
    return f"`hotdesk node enroll {name} --authority AUTHORITY --out {folder}`"


class ClusterContext(ssl.SSLContext):
    """The TLS context of a node or a server, and what it was made from."""

    identity: Path
    role: Role
    expires: float = math.inf
    """When its own certificate ends, as Unix time."""
    name: str = ""
    stamp: tuple[object, ...] = ()
    """Identifies the content of the files that are loaded."""

    def refresh(self) -> bool:
        """Load certificate and key again if their files changed; new connections use them. Return whether they did.

        Raise `HostError`, and go on with those that are loaded, if the new ones cannot be used.
        """
        if (stamp := _read_stamp(self.identity)) == self.stamp:
            return False
        self.stamp = stamp  # unusable files are reported once
        trial = make_tls_context(self.identity, self.role)  # a failed attempt leaves a context without its key
        if trial.name != self.name:
            raise HostError(
                f"the new certificate in {self.identity} is for {trial.name or 'no ' + self.role}, not for "
                f"{self.name}, so it is not used; write one for the old name, or restart"
            )
        self.load_verify_locations(self.identity / AUTHORITY)
        self.load_cert_chain(self.identity / CERTIFICATE, self.identity / PRIVATE_KEY)
        self.expires = trial.expires
        return True


def make_tls_context(identity: Path, role: Role) -> ClusterContext:
    """Return a TLS 1.3 context for a node or a server; both sides must show a certificate.

    No host name is compared: the authority signs certificates of nodes and servers only.
    """
    protocol = ssl.PROTOCOL_TLS_SERVER if role == "node" else ssl.PROTOCOL_TLS_CLIENT
    context = ClusterContext(protocol)
    context.identity, context.role = identity, role
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if role == "node":
        context.num_tickets = 0
    try:
        context.stamp = _read_stamp(identity)
        context.load_verify_locations(identity / AUTHORITY)
        context.load_cert_chain(identity / CERTIFICATE, identity / PRIVATE_KEY)
        context.expires = _read_expiry(identity)
        with suppress(HostError):  # its peers reject a certificate of another role
            context.name = read_name(identity, role)
    except (OSError, ssl.SSLError, ValueError) as e:
        raise HostError(
            f"the folder {identity} has no valid certificate and key of a {role} ({e}); write {AUTHORITY}, "
            f"{CERTIFICATE} and {PRIVATE_KEY} to it with {describe_enrolment(identity, role)}"
        ) from e
    _require_private(identity / PRIVATE_KEY)
    return context


def _read_stamp(identity: Path) -> tuple[object, ...]:
    return tuple(_read_file_stamp(identity / name) for name in (AUTHORITY, CERTIFICATE, PRIVATE_KEY))


def _read_file_stamp(file: Path) -> tuple[int, ...]:
    try:
        status = os.stat(file)
    except OSError:
        return ()
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _read_expiry(identity: Path) -> float:
    """Return when the certificate ends, or its authority's if that is earlier, as Unix time."""
    files = [(identity / name).read_bytes() for name in (CERTIFICATE, AUTHORITY)]
    return min(x509.load_pem_x509_certificate(each).not_valid_after_utc.timestamp() for each in files)


def read_peer_expiry(certificate: Mapping[str, Any] | None) -> float:
    """Return when the peer's certificate ends, as Unix time; a peer without one is refused for that."""
    end = (certificate or {}).get("notAfter")
    return float(ssl.cert_time_to_seconds(end)) if end else math.inf


def explain_tls_failure(error: ssl.SSLError, peer: Role) -> str:
    """Return why a peer's certificate or handshake was not accepted, and what to do."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the TLS handshake failed ({error.reason or error}); check that both certificates are from one authority"
        )
    enrolment = "--server NAME" if peer == "server" else "NAME"
    if error.verify_message == "certificate has expired":
        return (
            f"its certificate has expired; renew it with `hotdesk node enroll {enrolment} --renew --authority "
            f"AUTHORITY --out FOLDER` and copy {CERTIFICATE} from that folder to the {peer}"
        )
    return (
        f"its certificate is not accepted ({error.verify_message}); enroll the {peer} with this cluster's authority "
        f"(`hotdesk node enroll {enrolment} --authority AUTHORITY --out FOLDER`)"
    )


def _require_private(file: Path) -> None:
    """Refuse a key file that other users may read."""
    if os.stat(file).st_mode & 0o007:
        raise HostError(f"every user can read the private key {file}; run `chmod o= {file}`")


def find_peer_name(certificate: Mapping[str, Any] | None, role: Role) -> str:
    """Return the name in the peer's certificate for a role, or an empty string if it has no such role."""
    prefix = _format_uri(role, "")
    found = [value for kind, value in (certificate or {}).get("subjectAltName", ()) if kind == "URI"]
    names = [value.removeprefix(prefix) for value in found if value.startswith(prefix)]
    return names[0] if len(names) == 1 == len(found) else ""


def read_name(identity: Path, role: Role) -> str:
    try:
        certificate = x509.load_pem_x509_certificate((identity / CERTIFICATE).read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as e:
        raise HostError(
            f"{identity / CERTIFICATE} is not a valid certificate of a {role}: {e}; write one with "
            f"{describe_enrolment(identity, role)}"
        ) from e
    uris = [("URI", uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
    if not (name := find_peer_name({"subjectAltName": uris}, role)):
        other = "node" if role == "server" else "server"
        raise HostError(
            f"the certificate in {identity} is not that of a {role}, but perhaps that of a {other}; create a "
            f"{role}'s certificate with {describe_enrolment(Path('FOLDER'), role)}"
        )
    return name
