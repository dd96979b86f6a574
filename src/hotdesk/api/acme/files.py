"""ACME state on disk: the account key, the last outcome, and one file with the server's key and chain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from hotdesk.api.acme.jws import load_key, new_key
from hotdesk.linux import private_files

ACCOUNT, SERVER, STATE = "account.key", "server.pem", "state.json"
_PLACEHOLDER_LIFE = timedelta(days=30)


def prepare(folder: Path, names: tuple[str, ...]) -> Path:
    """Prepare a folder with an account key and a placeholder certificate; return the file the server loads."""
    private_files.make_folder(folder)
    private_files.write_first(folder, ACCOUNT, new_key())
    if read_certificate(folder) is None:
        private_files.write(folder, SERVER, make_placeholder(names))
    return folder / SERVER


def read_account(folder: Path) -> ec.EllipticCurvePrivateKey:
    return load_key(private_files.read(folder, ACCOUNT) or b"", folder / ACCOUNT)


def read_certificate(folder: Path) -> x509.Certificate | None:
    """Read the server's certificate; `None` if it is missing or unreadable."""
    pem = private_files.read(folder, SERVER)
    try:
        return x509.load_pem_x509_certificates(pem)[0] if pem else None
    except (ValueError, IndexError):
        return None


def make_placeholder(names: tuple[str, ...]) -> bytes:
    """Create a self-signed certificate, for the seconds until the first one is issued."""
    pem = new_key()
    key = load_key(pem)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hotdesk waits for its certificate")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + _PLACEHOLDER_LIFE)
    listed = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    certificate = builder.add_extension(listed, critical=False).sign(key, SHA256())
    return pem + certificate.public_bytes(Encoding.PEM)
