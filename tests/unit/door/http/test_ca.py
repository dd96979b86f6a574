"""Tests of the door's certificates: narrow, short-lived, and trusted only by their own desk."""

from __future__ import annotations

import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hotdesk.door.http import ca

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    """A time that stands until it is moved."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def leaves(scratch: Path, desk: str = "i1") -> tuple[ca.CertificateAuthority, ca.Leaves]:
    authority = ca.new_authority(desk, ca.get_utc_now())
    return authority, ca.Leaves(authority, ca.new_key(), scratch)


def client(authority: ca.CertificateAuthority, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.load_verify_locations(cadata=authority.certificate_pem.decode())
    return context


def shake(near: ssl.SSLContext, far: ssl.SSLContext, host: str) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Shake hands in memory; return both sides."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = near.wrap_bio(down, up, server_hostname=host)
    theirs = far.wrap_bio(up, down, server_side=True)
    for side in [ours, theirs] * 4:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return ours, theirs


def shown(near: ssl.SSLContext, far: ssl.SSLContext, host: str) -> x509.Certificate:
    der = shake(near, far, host)[0].getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der)


def test_an_authority_signs_leaves_and_nothing_else() -> None:
    authority = ca.new_authority("i7", NOW)
    made = x509.load_pem_x509_certificate(authority.certificate_pem)
    limits = made.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = made.extensions.get_extension_for_class(x509.KeyUsage)
    assert (limits.critical, limits.value.ca, limits.value.path_length) == (True, True, 0)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.crl_sign) == (True, True, False)
    assert made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "hotdesk door of i7"


def test_an_authority_lives_a_day_and_tolerates_a_wrong_clock() -> None:
    made = x509.load_pem_x509_certificate(ca.new_authority("i7", NOW).certificate_pem)
    assert (made.not_valid_before_utc, made.not_valid_after_utc) == (NOW - ca.DAY, NOW + ca.DAY)


def test_an_authority_does_not_show_its_key() -> None:
    authority = ca.new_authority("i7", NOW)
    assert "PRIVATE" in authority.key_pem.decode()
    assert "PRIVATE" not in repr(authority)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("host", ["api.example.test", "192.0.2.7", "2001:db8::7"])
def test_a_desk_trusts_the_leaf_of_the_host_it_calls(tmp_path: Path, host: str, version: ssl.TLSVersion) -> None:
    authority, made = leaves(tmp_path)
    ours, theirs = shake(client(authority, version), made.get_tls_context(host), host)
    assert ours.selected_alpn_protocol() == theirs.selected_alpn_protocol() == "http/1.1"


def test_a_leaf_is_for_one_host(tmp_path: Path) -> None:
    authority, made = leaves(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(client(authority), made.get_tls_context("a.example.test"), "b.example.test")


def test_a_desk_does_not_trust_the_door_of_another(tmp_path: Path) -> None:
    stranger, _ = leaves(tmp_path, "i2")
    _, made = leaves(tmp_path, "i1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(client(stranger), made.get_tls_context("a.example.test"), "a.example.test")


def test_a_leaf_is_narrow_and_short(tmp_path: Path) -> None:
    authority, made = leaves(tmp_path)
    first = shown(client(authority), made.get_tls_context("a.example.test"), "a.example.test")
    other = shown(client(authority), made.get_tls_context("b.example.test"), "b.example.test")
    names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uses = first.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(names) == [x509.DNSName("a.example.test")]
    assert list(uses) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert first.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert first.not_valid_after_utc - first.not_valid_before_utc <= timedelta(hours=24)
    assert first.serial_number != other.serial_number


def test_a_leaf_never_outlives_its_authority(tmp_path: Path) -> None:
    authority = ca.new_authority("i1", ca.get_utc_now(), timedelta(hours=1))
    made = ca.Leaves(authority, ca.new_key(), tmp_path)
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem)
    leaf = shown(client(authority), made.get_tls_context("a.example.test"), "a.example.test")
    assert leaf.not_valid_after_utc == issuer.not_valid_after_utc


def test_a_desk_that_outlived_its_authority_is_told_so(tmp_path: Path) -> None:
    made = ca.Leaves(ca.new_authority("i1", NOW), ca.new_key(), tmp_path, Clock(NOW + ca.DAY))
    with pytest.raises(ca.AuthorityEndedError):
        made.get_tls_context("a.example.test")


def test_a_leaf_is_kept_and_made_again_before_it_ends(tmp_path: Path) -> None:
    clock = Clock(NOW)
    made = ca.Leaves(ca.new_authority("i1", NOW), ca.new_key(), tmp_path, clock)
    first = made.get_tls_context("a.example.test")
    clock.now += ca.LEAF_USE
    assert made.get_tls_context("a.example.test") is first
    clock.now += timedelta(seconds=1)
    assert made.get_tls_context("a.example.test") is not first


@pytest.mark.slow
def test_the_leaf_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    made = ca.Leaves(ca.new_authority("i1", NOW), ca.new_key(), tmp_path, Clock(NOW))
    first, second = made.get_tls_context("h0.test"), made.get_tls_context("h1.test")
    for number in range(2, ca.LEAVES):
        made.get_tls_context(f"h{number}.test")
    assert made.get_tls_context("h0.test") is first
    made.get_tls_context("one-more.test")
    assert made.get_tls_context("h0.test") is first
    assert made.get_tls_context("h1.test") is not second


@pytest.mark.parametrize(("version", "bound"), [(ssl.TLSVersion.TLSv1_2, ca.SESSIONS + 1), (ssl.TLSVersion.TLSv1_3, 0)])
def test_a_desk_cannot_fill_the_door_with_sessions(tmp_path: Path, version: ssl.TLSVersion, bound: int) -> None:
    authority, made = leaves(tmp_path)
    caller = client(authority, version)
    most, held = 0, []
    for _ in range(ca.SESSIONS * 3):
        context = made.get_tls_context("a.example.test")
        held.append(shake(caller, context, "a.example.test"))
        most = max(most, context.session_stats()["number"])
    assert most == bound


def test_nothing_is_left_in_the_scratch(tmp_path: Path) -> None:
    _, made = leaves(tmp_path)
    made.get_tls_context("a.example.test")
    assert list(tmp_path.iterdir()) == []


def test_old_tls_is_refused_on_both_sides(tmp_path: Path) -> None:
    _, made = leaves(tmp_path)
    for context in (made.get_tls_context("a.example.test"), ca.make_upstream_context()):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_RENEGOTIATION


def test_the_door_refuses_a_server_with_an_untrusted_certificate(tmp_path: Path) -> None:
    authority, made = leaves(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(ca.make_upstream_context(), made.get_tls_context("a.example.test"), "a.example.test")
    trusting = ca.make_upstream_context(authority.certificate_pem)
    shake(trusting, made.get_tls_context("a.example.test"), "a.example.test")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(trusting, made.get_tls_context("a.example.test"), "b.example.test")


LOADED = "import sys; from hotdesk.door.http import ca; print(len(ca.make_upstream_context().get_ca_certs()))"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_private_authority_of_the_host_is_trusted(tmp_path: Path, kind: str) -> None:
    authority, _ = leaves(tmp_path)
    made = x509.load_pem_x509_certificate(authority.certificate_pem)
    (tmp_path / "0a0a0a0a.0").write_bytes(made.public_bytes(Encoding.PEM))
    (tmp_path / "README.0").write_text("no certificate")
    store = {"file": {"SSL_CERT_FILE": str(tmp_path / "0a0a0a0a.0")}, "folder": {"SSL_CERT_DIR": str(tmp_path)}}
    env = {"SSL_CERT_FILE": "/nonexistent", "SSL_CERT_DIR": "/nonexistent", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", LOADED]
    told = subprocess.run(command, env=env | store[kind], capture_output=True, timeout=30, check=False)
    assert told.stdout == b"1\n", told.stderr
