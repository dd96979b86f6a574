"""The body that a desk sends with a request: read from the desk, checked for secrets and credentials, streamed."""

from __future__ import annotations

from hotdesk.door.denials import ExchangeError
from hotdesk.door.egress import Egress
from hotdesk.door.grant import Refusal, make_signs
from hotdesk.door.http import framing
from hotdesk.door.http.framing import BodyReader, HttpMessageError, Request
from hotdesk.door.http.relay import Count
from hotdesk.door.http.wire import BODY_SECONDS, HungUpError, Wire
from hotdesk.door.secrets.bodies import BODY_LIMIT
from hotdesk.door.secrets.credential_fields import FieldWatch
from hotdesk.door.secrets.encodings import UnreadableError
from hotdesk.door.secrets.foreign_credentials import AllowedCredentials, refuse_credential
from hotdesk.door.secrets.response import DECODED
from hotdesk.door.secrets.upload_watch import UploadWatcher, make_watcher


class RequestBody:
    """The body of one request. `granted` says whether its host has or had a grant."""

    def __init__(
        self, way: Egress, wire: Wire, request: Request, host: str, *,
        granted: bool, allowed: AllowedCredentials | None, signed: bool,
    ) -> None:  # fmt: skip
        self.way = way
        self.wire = wire
        self.request = request
        self.host = host
        self.granted = granted
        self.allowed = allowed
        """What the desk may send to this host beside ordinary headers, or `None` if it may use its own credentials."""
        self.signed = signed
        """Whether a granted key signs the request: then its signature identifies the sender, not a field of the
        body."""

    async def read_whole(self, too_large: str) -> bytes:
        """Read the whole body, so that a secret can be inserted or the body signed."""
        self.invite()
        reader, body = BodyReader(self.request.body), bytearray()
        while not reader.done:
            payload = await self.read(reader)
            body += payload
            if len(body) > BODY_LIMIT:
                raise ExchangeError(413, too_large)
        return bytes(body)

    async def stream(self, upstream: Wire, count: Count) -> None:
        """Stream the body to the upstream, and refuse it at a placeholder that must not leave."""
        self.invite()
        reader = BodyReader(self.request.body)
        chunked = self.request.body == "chunked"
        over = False
        packing = b", ".join(self.request.headers.get_all(b"content-encoding"))
        try:
            watch = make_watcher(packing, self.granted or self.allowed is not None, DECODED, self.make_field_watch())
        except UnreadableError as e:
            raise ExchangeError(400, str(e)) from None
        async with self.way.reserve_decoder(packing):
            while not over:
                data = await self.read(reader)
                over = reader.done
                payload = self.check_piece(watch, data, over)
                count.add(up=len(payload))
                upstream.write(framing.encode_chunk(payload) if chunked else payload)
                await upstream.drain(BODY_SECONDS)
        if chunked:
            upstream.write(framing.LAST)

    def check_whole(self, body: bytes | None) -> None:
        """Refuse a body that was read whole if it has credentials of the desk's own."""
        if body and (watch := self.make_field_watch()):
            watch.feed(body)
            if watch.found is not None:
                raise self.way.refuse(refuse_credential(*watch.found), self.host)

    def check_piece(self, watch: UploadWatcher, data: bytes, over: bool) -> bytes:
        try:
            payload = watch.feed(data) + (watch.finish() if over else b"")
        except UnreadableError as e:
            why = f"the compressed body of the request cannot be checked for secrets: {e}; send it uncompressed"
            raise ExchangeError(400, why) from None
        if watch.found is not None:
            why = "the body has the placeholder of a secret in a place that no grant covers"
            raise self.way.refuse(Refusal(why, make_signs([watch.found])), self.host)
        if watch.credential is not None:
            raise self.way.refuse(refuse_credential(*watch.credential), self.host)
        return payload

    def make_field_watch(self) -> FieldWatch | None:
        """Return a scanner for the desk's own credentials, or `None` if it may send them or the request is signed."""
        if self.allowed is None or self.signed:
            return None
        return FieldWatch(self.request.headers.get_all(b"content-type"), self.allowed)

    def invite(self) -> None:
        """Ask the desk for the body if it waits to be asked."""
        if self.request.expects:
            self.wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def read(self, reader: BodyReader) -> bytes:
        """Read the next piece of the body; bytes after its end stay for the next request."""
        try:
            data = await self.wire.read(BODY_SECONDS)
            if not data:
                reader.feed_eof()
            payload, rest = reader.feed(data)
        except HttpMessageError as e:
            raise ExchangeError(e.status, e.reason) from None
        except HungUpError:
            raise ExchangeError(
                408,
                f"the desk sent nothing more of the request's body for {BODY_SECONDS:.0f} s; send the request again",
            ) from None
        if rest:
            self.wire.buffer[:0] = rest
        return payload
