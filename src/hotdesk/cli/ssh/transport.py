"""SSH packets and keys on the server's side (RFC 4253, 5647, 8731): bytes in, messages out, and the reverse.

One key exchange (curve25519-sha256), one host key type (ed25519) and one cipher (AES-GCM), all from the library
`cryptography`. The peer is the SSH client that started this process; data from a desk never arrives here.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hotdesk import __version__
from hotdesk.cli.ssh.fields import FieldReader, SshError, encode_mpint, encode_names, encode_string, encode_uint32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hotdesk.cli.ssh.host_key import HostKey

DISCONNECT, IGNORE, UNIMPLEMENTED, DEBUG, SERVICE_REQUEST, SERVICE_ACCEPT = 1, 2, 3, 4, 5, 6
KEXINIT, NEWKEYS, KEX_ECDH_INIT, KEX_ECDH_REPLY = 20, 21, 30, 31

VERSION = f"SSH-2.0-hotdesk_{__version__}".encode()
MAX_VERSION_BYTES = 255
MAX_PACKET_BYTES = 1 << 18
"""Maximum bytes of a packet, as in OpenSSH."""
TAG_BYTES = 16
KEX_NAMES = (b"curve25519-sha256", b"curve25519-sha256@libssh.org")
STRICT_CLIENT, STRICT_SERVER = b"kex-strict-c-v00@openssh.com", b"kex-strict-s-v00@openssh.com"
"""Strict key exchange, if both sides list these: no other messages until the first keys are in use."""
KEY_NAME = b"ssh-ed25519"
CIPHER_KEY_BYTES = {b"aes128-gcm@openssh.com": 16, b"aes256-gcm@openssh.com": 32}
MAC_NAMES = (b"hmac-sha2-256-etm@openssh.com", b"hmac-sha2-256")
"""Listed because the list must not be empty; an AEAD cipher uses no MAC."""
DISCONNECT_BY_APPLICATION = 11


class PacketCipher:
    """AES-GCM for one direction, with a new nonce for each packet."""

    def __init__(self, key: bytes, iv: bytes) -> None:
        self.aead = AESGCM(key)
        self.fixed = iv[:4]
        self.counter = int.from_bytes(iv[4:12], "big")

    def take_nonce(self) -> bytes:
        nonce = self.fixed + self.counter.to_bytes(8, "big")
        self.counter = (self.counter + 1) & 0xFFFFFFFFFFFFFFFF
        return nonce


class Transport:
    """One connection to an SSH client."""

    def __init__(self, key: HostKey) -> None:
        self.key = key
        self.out = bytearray(VERSION + b"\r\n")
        """Bytes to send."""
        self.buffer = bytearray()
        self.client_version = b""
        self.session_id = b""
        self.sealing: PacketCipher | None = None
        self.opening: PacketCipher | None = None
        self.next_opening: PacketCipher | None = None
        """Cipher that is used after the client's NEWKEYS."""
        self.received = 0
        """Number of packets so far; an unsupported message is refused by its number."""
        self.is_strict = False
        self.is_closed = False
        """Whether the client has disconnected."""
        self.queue: list[bytes] = []
        """Messages that wait until the new keys are in use."""
        self.is_exchanging = False
        self.ignores_guess = False
        """Whether to ignore the client's next packet, which belongs to a wrongly guessed key exchange."""
        self.own_init = self.client_init = b""
        self.cipher_names = (b"", b"")
        """Cipher from the client, and cipher to the client."""
        self.begin_exchange()

    # -- packets --------------------------------------------------------------------------------------------------

    def send(self, payload: bytes) -> None:
        """Send a message; during a key exchange it is queued."""
        if self.is_exchanging:
            self.queue.append(payload)
        else:
            self.put(payload)

    def put(self, payload: bytes) -> None:
        if self.sealing is None:
            padding = -(len(payload) + 5) % 8
            padding += 8 if padding < 4 else 0
            self.out += encode_uint32(len(payload) + padding + 1) + bytes((padding,)) + payload + bytes(padding)
            return
        padding = -(len(payload) + 1) % 16
        padding += 16 if padding < 4 else 0
        length = encode_uint32(len(payload) + padding + 1)
        plain = bytes((padding,)) + payload + bytes(padding)
        self.out += length
        self.out += self.sealing.aead.encrypt(self.sealing.take_nonce(), plain, length)

    def receive(self) -> bytes | None:
        """Return the next message that is not the transport's own; `None` until more bytes arrive."""
        while not self.is_closed:
            payload = self.read_packet() if self.client_version or self.read_version() else None
            if payload is None:
                return None
            self.received += 1
            if not self.take(payload):
                return payload
        return None

    def read_version(self) -> bool:
        """Read the client's version line; return `False` until it is complete."""
        line, newline, _ = self.buffer.partition(b"\n")
        if not newline:
            if len(self.buffer) > MAX_VERSION_BYTES:
                raise SshError("the peer is not an SSH client")
            return False
        del self.buffer[: len(line) + 1]
        self.client_version = bytes(line).rstrip(b"\r")
        if not self.client_version.startswith(b"SSH-2.0-") or len(line) > MAX_VERSION_BYTES:
            raise SshError("the peer is not an SSH 2 client")
        return True

    def read_packet(self) -> bytes | None:
        """Return the payload of the next packet; `None` until it is complete."""
        if len(self.buffer) < 4:
            return None
        length = int.from_bytes(self.buffer[:4], "big")
        tag = 0 if self.opening is None else TAG_BYTES
        if not 2 <= length <= MAX_PACKET_BYTES:
            raise SshError(f"the client sent a packet with an invalid length of {length} bytes")
        end = 4 + length + tag
        if len(self.buffer) < end:
            return None
        body = bytes(self.buffer[4:end])
        if self.opening is not None:
            body = self.open_packet(self.opening, body, bytes(self.buffer[:4]))
        del self.buffer[:end]
        padding = body[0]
        if not 4 <= padding < length - 1:
            raise SshError("the client sent a packet with invalid padding")
        return body[1 : length - padding]

    def open_packet(self, cipher: PacketCipher, body: bytes, length: bytes) -> bytes:
        try:
            return cipher.aead.decrypt(cipher.take_nonce(), body, length)
        except (InvalidTag, ValueError) as e:
            raise SshError("the client sent a packet that failed its integrity check") from e

    # -- the transport's own messages ------------------------------------------------------------------------------

    def take(self, payload: bytes) -> bool:
        """Handle a message of the transport; return `False` for any other."""
        kind = payload[0]
        if self.ignores_guess and kind != KEXINIT:
            self.ignores_guess = False
        elif kind == DISCONNECT:
            self.is_closed = True
        elif kind == KEXINIT:
            self.negotiate(payload)
        elif kind == KEX_ECDH_INIT:
            self.exchange(payload)
        elif kind == NEWKEYS:
            self.change_keys()
        elif not self.session_id and (self.is_strict or kind not in (IGNORE, DEBUG, UNIMPLEMENTED)):
            raise SshError("the client sent data before the key exchange")
        else:
            return kind in (IGNORE, DEBUG, UNIMPLEMENTED)
        return True

    def refuse(self) -> None:
        self.send(bytes((UNIMPLEMENTED,)) + encode_uint32(self.received - 1 & 0xFFFFFFFF))

    def disconnect(self, text: str) -> None:
        self.put(
            bytes((DISCONNECT,))
            + encode_uint32(DISCONNECT_BY_APPLICATION)
            + encode_string(text.encode())
            + encode_string(b"")
        )
        self.is_closed = True

    def begin_exchange(self) -> None:
        ciphers = encode_names(CIPHER_KEY_BYTES)
        macs = encode_names(MAC_NAMES)
        kinds = KEX_NAMES if self.session_id else (*KEX_NAMES, STRICT_SERVER)
        self.own_init = (
            bytes((KEXINIT,)) + os.urandom(16) + encode_names(kinds) + encode_names((KEY_NAME,)) + ciphers * 2
            + macs * 2 + encode_names((b"none",)) * 2 + encode_string(b"") * 2 + bytes(5)
        )  # fmt: skip
        self.is_exchanging = True
        self.put(self.own_init)

    def negotiate(self, payload: bytes) -> None:
        """Choose the algorithms: the first of each list of the client that is supported."""
        if not self.is_exchanging:
            self.begin_exchange()
        if self.client_init:
            raise SshError("the client started a second key exchange")
        self.client_init = payload
        fields = FieldReader(payload, 17)
        kinds, keys, inward, outward = (fields.read_names() for _ in range(4))
        for _ in range(6):
            fields.read_string()
        follows = fields.read_boolean()
        if not self.session_id:
            self.is_strict = STRICT_CLIENT in kinds
            if self.is_strict and self.received != 1:
                raise SshError("the client sent data before the key exchange")
        kind, key = choose(kinds, KEX_NAMES), choose(keys, (KEY_NAME,))
        self.cipher_names = choose(inward, CIPHER_KEY_BYTES), choose(outward, CIPHER_KEY_BYTES)
        self.ignores_guess = follows and (kinds[0] != kind or keys[0] != key)

    def exchange(self, payload: bytes) -> None:
        if not self.client_init or self.next_opening is not None:
            raise SshError("unexpected key exchange message from the client")
        theirs = FieldReader(payload, 1).read_string()
        private = X25519PrivateKey.generate()
        ours = private.public_key().public_bytes_raw()
        try:
            shared = encode_mpint(private.exchange(X25519PublicKey.from_public_bytes(theirs)))
        except ValueError as e:
            raise SshError("invalid key exchange value from the client") from e
        key = encode_string(KEY_NAME) + encode_string(self.key.public)
        transcript = (self.client_version, VERSION, self.client_init, self.own_init, key, theirs, ours)
        digest = compute_digest(b"".join(map(encode_string, transcript)) + shared)
        self.session_id = self.session_id or digest
        signature = encode_string(KEY_NAME) + encode_string(self.key.sign(digest))
        self.put(bytes((KEX_ECDH_REPLY,)) + encode_string(key) + encode_string(ours) + encode_string(signature))
        self.put(bytes((NEWKEYS,)))

        def derive(letter: bytes) -> bytes:
            return compute_digest(shared + digest + letter + self.session_id)

        inward, outward = (CIPHER_KEY_BYTES[name] for name in self.cipher_names)
        self.next_opening = PacketCipher(derive(b"C")[:inward], derive(b"A"))
        self.sealing = PacketCipher(derive(b"D")[:outward], derive(b"B"))

    def change_keys(self) -> None:
        if self.next_opening is None:
            raise SshError("unexpected NEWKEYS message from the client")
        self.opening, self.next_opening = self.next_opening, None
        self.client_init = b""
        self.is_exchanging = False
        waiting, self.queue = self.queue, []
        for payload in waiting:
            self.put(payload)


def compute_digest(data: bytes) -> bytes:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(data)
    return digest.finalize()


def choose(offered: list[bytes], available: tuple[bytes, ...] | dict[bytes, int]) -> bytes:
    for name in offered:
        if name in available:
            return name
    theirs = b",".join(offered).decode("ascii", "replace")
    ours = b",".join(available).decode()
    raise SshError(
        f"the SSH client offers only {theirs}, and hotdesk supports {ours}; allow one of these in ~/.ssh/config"
    )
