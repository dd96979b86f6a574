"""A client for tests of the SSH server, which can also send what no real client sends."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from hotdesk.cli.ssh import transport as ssh
from hotdesk.cli.ssh.fields import FieldReader, encode_mpint, encode_names, encode_string, encode_uint32
from hotdesk.cli.ssh.host_key import HostKey
from hotdesk.cli.ssh.transport import PacketCipher, Transport, compute_digest

CLIENT = b"SSH-2.0-test"
OFFER = (b"curve25519-sha256", ssh.STRICT_CLIENT)


def packet(payload: bytes) -> bytes:
    padding = 8 - (len(payload) + 5) % 8 + 4
    padding += -(len(payload) + 5 + padding) % 8
    return encode_uint32(len(payload) + padding + 1) + bytes((padding,)) + payload + bytes(padding)


def kexinit(kinds: tuple[bytes, ...] = OFFER, cipher: bytes = b"aes128-gcm@openssh.com", follows: int = 0) -> bytes:
    lists = [
        encode_names(kinds),
        encode_names((ssh.KEY_NAME,)),
        encode_names((cipher,)),
        encode_names((cipher,)),
        *[encode_names((b"none",))] * 6,
    ]
    return bytes((ssh.KEXINIT,)) + bytes(16) + b"".join(lists) + bytes((follows,)) + bytes(4)


class SshTestClient:
    """The client's end of a transport."""

    def __init__(self) -> None:
        self.transport = Transport(HostKey(bytes(32)))
        self.sealing: PacketCipher | None = None
        self.opening: PacketCipher | None = None

    def send(self, data: bytes) -> list[bytes]:
        """Send bytes; return the messages in the reply that belong to the layers above the transport."""
        self.transport.buffer += data
        found = []
        while (payload := self.transport.receive()) is not None:
            found.append(payload)
        return found

    def seal(self, payload: bytes) -> bytes:
        assert self.sealing is not None
        padding = -(len(payload) + 1) % 16
        padding += 16 if padding < 4 else 0
        length = encode_uint32(len(payload) + 1 + padding)
        plain = bytes((padding,)) + payload + bytes(padding)
        return length + self.sealing.aead.encrypt(self.sealing.take_nonce(), plain, length)

    def read(self) -> bytes:
        out = self.transport.out
        length = int.from_bytes(out[:4], "big")
        end = 4 + length + (0 if self.opening is None else 16)
        body = bytes(out[4:end])
        if self.opening is not None:
            body = self.opening.aead.decrypt(self.opening.take_nonce(), body, bytes(out[:4]))
        del out[:end]
        return body[1 : length - body[0]]

    def exchange(self, session: bytes = b"") -> bytes:
        """Exchange keys; return the session id."""
        if not session:
            line, _, _ = self.transport.out.partition(b"\r\n")
            assert line == ssh.VERSION
            del self.transport.out[: len(line) + 2]
        offer = kexinit()
        wrap = self.seal if session else packet
        self.send((b"" if session else CLIENT + b"\r\n") + wrap(offer))
        theirs = self.read()
        private = X25519PrivateKey.generate()
        public = private.public_key().public_bytes_raw()
        self.send(wrap(bytes((ssh.KEX_ECDH_INIT,)) + encode_string(public)))
        fields = FieldReader(self.read(), 1)
        key, server, signature = fields.read_string(), fields.read_string(), FieldReader(fields.read_string())
        shared = encode_mpint(private.exchange(X25519PublicKey.from_public_bytes(server)))
        digest = compute_digest(
            b"".join(map(encode_string, (CLIENT, ssh.VERSION, offer, theirs, key, public, server))) + shared
        )
        assert signature.read_string() == ssh.KEY_NAME
        Ed25519PublicKey.from_public_bytes(key[-32:]).verify(signature.read_string(), digest)
        assert self.read() == bytes((ssh.NEWKEYS,))
        self.send(wrap(bytes((ssh.NEWKEYS,))))
        session = session or digest

        def derive(letter: bytes) -> bytes:
            return compute_digest(shared + digest + letter + session)

        self.sealing = PacketCipher(derive(b"C")[:16], derive(b"A"))
        self.opening = PacketCipher(derive(b"D")[:16], derive(b"B"))
        return session
