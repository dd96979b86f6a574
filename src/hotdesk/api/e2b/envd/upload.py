"""Files sent to a sandbox, as bytes or as a form: forwarded as they arrive, never stored as a whole."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import anyio
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from hotdesk.api.e2b.responses import E2bError
from hotdesk.errors import make_printable

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

PIECE = 1 << 16
"""Bytes that are written together: a small file is one write, so that watchers see one change."""
_RECEIVE_TIMEOUT_S = 300.0
"""Seconds a caller may send nothing."""
MAX_HEAD_BYTES = 8192
"""Bytes of headers one part of a form may have."""
MAX_FILES = 1000
"""Files of one form."""
PREFIX = "x-metadata-"
KEY = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,246}")
VALUE = re.compile(r"[\x20-\x7e]*")
_MAX_METADATA_BYTES = 4096
"""Bytes of all metadata of a file."""

Event: TypeAlias = tuple[str, bytes]


async def read_body(request: Request) -> AsyncIterator[bytes]:
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", ""):
        raise E2bError(400, "Content-Encoding must be identity or gzip")
    received = _receive_bytes(request)
    async for data in _gunzip(received) if coding == "gzip" else received:
        yield data


async def _receive_bytes(request: Request) -> AsyncIterator[bytes]:
    """Yield bytes as they arrive; raise an error if the client disconnects or falls silent."""
    stream = request.stream()
    while True:
        data = None
        with anyio.move_on_after(_RECEIVE_TIMEOUT_S):
            try:
                data = await anext(stream, b"")
            except ClientDisconnect:
                raise E2bError(400, "the client disconnected") from None
        if data is None:
            raise E2bError(408, f"no data was received for {_RECEIVE_TIMEOUT_S:.0f} s; send the file again")
        if not data:
            return
        yield data


async def _gunzip(packed: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Decompress gzip in bounded pieces."""
    unpacker = zlib.decompressobj(31)
    try:
        async for data in packed:
            while data:
                yield unpacker.decompress(data, PIECE)
                data = unpacker.unconsumed_tail
                if unpacker.eof and (data := unpacker.unused_data):
                    unpacker = zlib.decompressobj(31)
        while rest := unpacker.decompress(unpacker.unconsumed_tail, PIECE):
            yield rest
    except zlib.error:
        raise E2bError(400, "the body is not valid gzip") from None
    if not unpacker.eof:
        raise E2bError(400, "the gzip body is truncated")


async def rechunk(data: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    buffer = bytearray()
    async for part in data:
        buffer += part
        if len(buffer) >= PIECE:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


class UploadForm:
    """A form as it arrives: parts with a filename, one after the other."""

    def __init__(self, content_type: str, data: AsyncIterator[bytes]) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise E2bError(400, "the content type must be application/octet-stream or multipart/form-data")
        self.data = data
        self.events: list[Event] = []
        names = ("part_begin", "header_end", "headers_finished", "part_end", "end")
        calls: MultipartCallbacks = {f"on_{name}": self.make_event_recorder(name) for name in names}  # type: ignore[assignment]
        for name in ("header_field", "header_value", "part_data"):
            calls[f"on_{name}"] = self.make_data_recorder(name)  # type: ignore[literal-required]
        try:
            self.parser = MultipartParser(options[b"boundary"], calls)
        except FormParserError as e:
            raise E2bError(400, f"malformed form: {e}") from None

    def make_event_recorder(self, name: str):  # type: ignore[no-untyped-def]
        return lambda: self.events.append((name, b""))

    def make_data_recorder(self, name: str):  # type: ignore[no-untyped-def]
        return lambda data, start, end: self.events.append((name, data[start:end]))

    async def iterate_events(self) -> AsyncGenerator[Event]:
        async for data in self.data:
            try:
                self.parser.write(data)
            except FormParserError as e:
                raise E2bError(400, f"malformed form: {e}") from None
            events, self.events = self.events, []
            for event in events:
                yield event
                if event[0] == "end":
                    return
        raise E2bError(400, "the form ends before its closing boundary; send it again")

    async def iterate_parts(self) -> AsyncGenerator[tuple[str, str, AsyncIterator[bytes]]]:
        """Yield each part's field name, filename as sent, and bytes; read one part before the next."""
        happening = self.iterate_events()
        async for name, _ in happening:
            if name == "part_begin":
                field, filename = parse_disposition(await read_head(happening))
                data = read_content(happening)
                yield field, filename, data
                async for _ in data:
                    pass


async def read_head(happening: AsyncGenerator[Event]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = value = b""
    size = 0
    async for event, data in happening:
        size += len(data)
        if size > MAX_HEAD_BYTES:
            raise E2bError(400, f"the headers of a form part have more than {MAX_HEAD_BYTES} bytes")
        match event:
            case "header_field":
                name += data
            case "header_value":
                value += data
            case "header_end":
                found[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")
                name = value = b""
            case "headers_finished":
                return found
    raise E2bError(400, "the form ends before its closing boundary; send it again")


async def read_content(happening: AsyncGenerator[Event]) -> AsyncIterator[bytes]:
    async for event, data in happening:
        if event == "part_end":
            return
        yield data


_PARAMETER = re.compile(r';\s*([a-zA-Z*]+)=(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))')


def parse_disposition(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return a part's field name, and its filename with the folders in it."""
    header = headers.get("content-disposition", "")
    found = {key.lower(): re.sub(r"\\(.)", r"\1", quoted) or plain for key, quoted, plain in _PARAMETER.findall(header)}
    return found.get("name", ""), found.get("filename", "")


def parse_metadata(headers: Headers) -> dict[str, str]:
    found = {name[len(PREFIX) :]: value for name, value in headers.items() if name.startswith(PREFIX)}
    for key, value in found.items():
        if not KEY.fullmatch(key):
            raise E2bError(
                400,
                f"metadata name '{make_printable(key[:100])}' must have 1 to 246 characters: letters, digits and "
                "!#$%&'*+.^_`|~-",
            )
        if not VALUE.fullmatch(value):
            raise E2bError(400, f"the value of metadata '{key[:100]}' must be printable ASCII")
    if sum(len(key) + len(value) for key, value in found.items()) > _MAX_METADATA_BYTES:
        raise E2bError(400, f"the metadata of the file has more than {_MAX_METADATA_BYTES} bytes; shorten it")
    return found
