"""A node's signature, by its certificate's key, over the key that signs a tenant's events there."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from hotdesk.cluster.certificates import CERTIFICATE, PRIVATE_KEY, describe_enrolment
from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError
from hotdesk.keys.node_proof import encode_vouching


@dataclass(frozen=True, slots=True)
class Vouching:
    """A public key, and the certificate and signature of the node that vouches for it. Empty: no node does."""

    key: str
    certificate: str = ""
    signature: str = ""


def load_voucher(identity: Path) -> Callable[[str], Vouching]:
    """Return a function that vouches for keys in PEM. The private key is read now, before this process is confined."""
    try:
        certificate = (identity / CERTIFICATE).read_text()
        private = load_pem_private_key((identity / PRIVATE_KEY).read_bytes(), None)
    except (OSError, ValueError, TypeError) as e:
        raise HostError(
            f"the folder {identity} has no valid certificate and key of a node: {e}; write them with "
            f"{describe_enrolment(identity, 'node')}"
        ) from e
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise HostError(
            f"{identity / PRIVATE_KEY} is not an elliptic-curve key; remove it and the certificate, then write both "
            f"again with {describe_enrolment(identity, 'node')}"
        )
    own = private

    def vouch(key: str) -> Vouching:
        signature = own.sign(encode_vouching(key.encode()), ec.ECDSA(hashes.SHA256()))
        return Vouching(key, certificate, base64.b64encode(signature).decode())

    return vouch


class Voucher:
    """Vouches with the certificate that was loaded last."""

    def __init__(self, identity: Path) -> None:
        self.identity = identity
        self.vouch = load_voucher(identity)

    def __call__(self, key: str) -> Vouching:
        return self.vouch(key)

    def reload(self) -> None:
        self.vouch = load_voucher(self.identity)
