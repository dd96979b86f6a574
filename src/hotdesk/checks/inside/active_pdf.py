"""Finds active content in a PDF: actions on opening, clicking or searching. Runs inside a clean desk."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence

from hotdesk.checks.inside.active_found import Found
from hotdesk.checks.inside.active_links import leads_to_page

MAX_STREAM_BYTES = 64 << 20
"""Maximum unpacked bytes of an object stream."""
MOST_STREAMS = 50_000
HEAD = 16 << 10
"""Number of bytes of a stream that suffice to identify it."""
GAP = rb"(?:[\s\0]|%[^\r\n]*[\r\n])*+"
SEPARATOR = rb"(?:[\s\0]|%[^\r\n]*[\r\n])++"
REF = rb"\d++" + SEPARATOR + rb"\d++" + GAP + rb"R"
END = rb"(?=[\s\0()<>\[\]{}/%]|\Z)"
STRING = rb"(?:\((?P<plain>(?:[^()\\]|\\.){0,999})|<(?!<)(?P<hex>[^>]{0,9999}))"
LINK = re.compile(rb"/(?:URI|Base)" + GAP + rb"(?:" + STRING + rb"|(?P<ref>" + REF + rb"))", re.S)
URI = re.compile(rb"(?P<kind>/S" + GAP + rb")?/URI" + GAP + rb"(?=(?P<dict><<)|[<\[/0-9+.-])")
"""The name URI: the kind of an action, a dictionary of the document, or a key with a value."""
FILE = re.compile(rb"/U?F" + END + GAP + rb"(?:" + STRING + rb"|(?P<ref>" + REF + rb"))", re.S)
VALUE = re.compile(GAP + STRING, re.S)
AWAY = re.compile(rb"(?:[A-Za-z][A-Za-z0-9+.-]+:[/\\]|[/\\]{2})")
CONTROLS = bytes(range(33))
ESCAPED = re.compile(rb"\\([0-7]{1,3}|\r\n|.)", re.S)
ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"\r\n": b"", b"\r": b"", b"\n": b""}
NOT_HEX = re.compile(rb"[^0-9a-fA-F]")
DEFINED = re.compile(rb"(?<!\d)(\d++)" + SEPARATOR + rb"(\d++)" + GAP + rb"obj")
NAME = re.compile(rb"#([0-9a-fA-F]{2})")
ENDING = frozenset(bytes([each]) for each in b"\0\t\n\f\r ()<>[]{}/%")
KEYS: tuple[tuple[str, bytes, str], ...] = (
    ("scripts", rb"/JavaScript" + END, "JavaScript"),
    ("scripts", rb"/JS" + GAP + rb"(?:\(|<|" + REF + rb")", "JavaScript"),
    ("actions", rb"/Launch" + END, "an action that starts a program"),
    ("actions", rb"/AA" + GAP + rb"(?:<<|" + REF + rb")", "actions that run by themselves"),
    ("actions", rb"/ImportData" + END, "an action that reads a file"),
    ("actions", rb"/SubmitForm" + END, "a form that sends its data"),
    ("actions", rb"/(?:Rendition|Movie|Sound)" + GAP + rb"(?:<<|" + REF + rb")", "embedded sound or video"),
    ("actions", rb"/S" + GAP + rb"/(?:Rendition|Movie|Sound)" + END, "embedded sound or video"),
    ("external-links", rb"/FS" + GAP + rb"/URL" + END, "an external file"),
    ("external-links", rb"/(?:FFilter|FDecodeParms)" + END, "a stream in another file"),
    ("external-links", rb"/OPI" + GAP + rb"(?:<<|" + REF + rb")", "a picture in another file"),
    ("embedded", rb"/Subtype" + GAP + rb"/(?:3D|Screen)" + END, "embedded media"),
    ("external-links", rb"/GoTo[RE]" + END, "a link into another file"),
    ("external-links", rb"/Ref" + GAP + rb"(?:<<|" + REF + rb")", "a page of another file"),
    ("embedded", rb"/EmbeddedFiles?" + END, "an embedded file"),
    ("embedded", rb"/EF" + GAP + rb"(?:<<|" + REF + rb")", "an embedded file"),
    ("embedded", rb"/FileAttachment" + END, "an embedded file"),
    ("embedded", rb"/RichMedia" + END, "embedded media"),
    ("forms", rb"/XFA" + GAP + rb"(?:\[|<<|" + REF + rb")", "an XFA form"),
    ("encrypted", rb"/Encrypt" + GAP + rb"(?:<<|" + REF + rb")", "encryption"),
)
RULES = tuple((family, re.compile(shape), what) for family, shape, what in KEYS)
OPEN_ACTION = re.compile(rb"/OpenAction" + END)
REFERENCE = re.compile(GAP + rb"(\d++)" + SEPARATOR + rb"(\d++)" + GAP + rb"R" + END)
TOKEN = re.compile(
    rb"[\s\0]*(<<|>>|\((?:[^()\\]|\\.)*\)|<[0-9a-fA-F\s]*>|/[^\s\0()<>\[\]{}/%]*|[\[\]]|[^\s\0()<>\[\]{}/%]+)", re.S
)
LONGEST_ACTION = 4096
"""Maximum bytes of an action that is parsed."""
SHOWS = frozenset({b"/S", b"/D", b"/Type", b"/SD"})
"""Keys of an action that shows a page of its own file and starts no further action."""
STREAM = re.compile(rb"(?<!end)stream[^\r\n]{0,80}(?:\r\n|\n|\r)")
"""Readers continue on the next line, whatever else is on this one."""
PACKED = re.compile(rb"/ObjStm" + END)
FIRST = re.compile(rb"/First" + GAP + rb"(\d+)" + END + rb"(?!" + GAP + rb"\d+" + GAP + rb"R)")
OTHERWISE = re.compile(rb"/(?:Predictor|DecodeParms|DP)" + END)
NUMBERS = re.compile(rb"\A" + GAP + rb"\d+" + GAP + rb"\d+")


def look(data: bytes, found: Found, where: str) -> None:
    if not data.startswith(b"%PDF-"):
        found.add("polyglot", where, "bytes before the PDF")
    tail = data[data.rfind(b"%%EOF") + 5 :] if b"%%EOF" in data else b""
    if tail.strip(b"\r\n\0 \t"):
        found.add("polyglot", where, f"{len(tail)} bytes after the PDF")
    plain = _unescape_names(data)
    packed = unpack_object_streams(data, found, where)
    texts = (plain, *packed)
    families = set()
    for text in texts:
        for family, shape, what in RULES:
            if match := shape.search(text):
                families.add(family)
                found.add(family, where, f"{what}: {match.group()[:60].decode('latin-1')}")
    objects = Objects(texts)
    for text in texts:
        if "encrypted" not in families:  # else its strings are unreadable, which the finding states
            _inspect_links(text, objects, found, where)
        for match in OPEN_ACTION.finditer(text):
            if _is_active_opening(text, match.end(), texts):
                found.add("actions", where, "an action that runs when the file is opened")


def _inspect_links(text: bytes, objects: Objects, found: Found, where: str) -> None:
    links = set()
    for match in LINK.finditer(text):
        links.add(match.start())
        for target in objects.list_strings(match):
            if target is None or not leads_to_page(target.decode("latin-1")):
                destination = "somewhere" if target is None else target[:60].decode("latin-1")
                found.add("external-links", where, f"a link that does not lead to a web page: {destination}")
    for match in URI.finditer(text):
        if not (match["kind"] or match["dict"] or match.start() in links):
            found.add("external-links", where, "a link whose target cannot be read")
    for match in FILE.finditer(text):
        for target in objects.list_strings(match):
            if target is not None and AWAY.match(target):
                found.add("external-links", where, f"an external file: {target[:60].decode('latin-1')}")


class Objects:
    """The places where the numbered objects of a file are defined; one number can have several definitions."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts
        self.places: dict[tuple[bytes, bytes], list[tuple[bytes, int]]] = {}

    def list_strings(self, match: re.Match[bytes]) -> Iterator[bytes | None]:
        """Yield the string of a match, or every definition of the object that it refers to.

        `None` stands for a definition that is not a string, and for none.
        """
        if not match["ref"]:
            yield _decode_string(match)
            return
        if not self.places:
            self._index()
        number, generation = (each.lstrip(b"0") for each in re.findall(rb"\d+", match["ref"])[:2])
        for text, at in self.places.get((number, generation), [(b"", 0)]):
            value = VALUE.match(text, at)
            yield _decode_string(value) if value else None

    def _index(self) -> None:
        for text in self.texts:
            for match in DEFINED.finditer(text):
                key = match[1].lstrip(b"0"), match[2].lstrip(b"0")
                self.places.setdefault(key, []).append((text, match.end()))


def _decode_string(match: re.Match[bytes]) -> bytes:
    """Return a string without spaces and control characters, which readers drop from addresses."""
    if match["plain"] is None:
        digits = NOT_HEX.sub(b"", match["hex"])
        meant = bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())
    else:
        meant = ESCAPED.sub(_decode_escape, match["plain"])
    return meant.removeprefix(b"\xfe\xff").removeprefix(b"\xef\xbb\xbf").translate(None, CONTROLS)


def _decode_escape(match: re.Match[bytes]) -> bytes:
    if match[1][:1] in b"01234567":
        return bytes([int(match[1], 8) & 255])
    return ESCAPES.get(match[1], match[1])


def _unescape_names(data: bytes) -> bytes:
    """Decode the escapes in names: `/J#53` is `/JS`. An escaped delimiter stays as it is."""
    return NAME.sub(lambda match: match[0] if (meant := bytes([int(match[1], 16)])) in ENDING else meant, data)


def _is_active_opening(text: bytes, at: int, texts: tuple[bytes, ...]) -> bool:
    """Return whether opening the file does more than show a page; every definition of the object counts."""
    named = REFERENCE.match(text, at)
    if not named:
        return not _shows_page(text, at)
    shape = re.compile(rb"(?<!\d)" + named[1] + GAP + named[2] + GAP + rb"obj" + END)
    places = [(one, match.end()) for one in texts for match in shape.finditer(one)]
    return not places or not all(_shows_page(*each) for each in places)


def _shows_page(text: bytes, at: int) -> bool:
    """Return whether the text at `at` is a destination in the file, or an action that goes to one and does nothing
    else.

    Any unusual notation, such as a comment or brackets in a string, counts as something else.
    """
    first = TOKEN.match(text, at)
    if first is None or first[1] != b"<<":
        return first is not None and first[1] == b"["
    keys: set[bytes] = set()
    kinds: set[bytes] = set()
    depth, before, place = 1, b"", first.end()
    while token := TOKEN.match(text, place, at + LONGEST_ACTION):
        word, place = token[1], token.end()
        depth += (word in (b"<<", b"[")) - (word in (b">>", b"]"))
        if depth == 0:
            return kinds == {b"/GoTo"} and keys <= SHOWS
        if depth == 1 and before == b"/S":
            kinds.add(word)
        elif depth == 1 and word.startswith(b"/") and before not in (b"/Type", b"/D"):
            keys.add(word)
        before = word if depth == 1 else b""
    return False


def unpack_object_streams(data: bytes, found: Found, where: str) -> list[bytes]:
    """Unpack the streams that hold objects; report those that cannot be unpacked."""
    streams: list[bytes] = []
    named_streams = 0
    for number, match in enumerate(STREAM.finditer(data)):
        if number >= MOST_STREAMS:
            found.add("unreadable", where, "too many streams to inspect")
            break
        head = _unescape_names(data[max(data.rfind(b"obj", 0, match.start()), match.start() - 4096, 0) : match.start()])
        named = PACKED.search(head) is not None
        named_streams += named
        whole, ended = _unpack_stream(data, match.end(), found)
        if named and (OTHERWISE.search(head) or not ended or not NUMBERS.match(whole[:HEAD])):
            found.add("unreadable", where, "objects compressed in a way that cannot be inspected")
        if NUMBERS.match(whole[:HEAD]):
            streams.append(_unescape_names(whole))
            if named and len(first := FIRST.findall(head)) == 1:
                streams.append(_unescape_names(_label_objects(whole, int(first[0]))))
                found.spend(len(streams[-1]))
            elif named:
                found.add("unreadable", where, "compressed objects without a readable index")
    if named_streams < len(PACKED.findall(_unescape_names(data))):
        found.add("unreadable", where, "compressed objects that the index does not list")
    return streams


def _label_objects(whole: bytes, first: int) -> bytes:
    """Write the number of each compressed object before it, as for an object that is not compressed."""
    numbers = [int(each) for each in re.findall(rb"\d{1,10}", whole[:first])]
    starts = sorted((first + offset, number) for number, offset in zip(numbers[::2], numbers[1::2], strict=False))
    ends = [start for start, _ in starts[1:]] + [len(whole)]
    return b"".join(
        b"\n%d 0 obj\n%b" % (number, whole[start:end]) for (start, number), end in zip(starts, ends, strict=True)
    )


def _unpack_stream(data: bytes, at: int, found: Found) -> tuple[bytes, bool]:
    """Unpack a stream that may hold objects, which start with numbers; return it and whether it was complete.

    Of any other stream, only the first bytes are unpacked.
    """
    if NUMBERS.match(data[at : at + HEAD]):
        return data[at : data.find(b"endstream", at)], True
    inflating, inflated = zlib.decompressobj(), b""
    try:
        while at < len(data) and not inflating.eof and (not inflated or NUMBERS.match(inflated[:HEAD])):
            inflated += inflating.decompress(
                inflating.unconsumed_tail + data[at : at + HEAD], MAX_STREAM_BYTES - len(inflated) + 1
            )
            at += HEAD
            found.measure(len(inflated), MAX_STREAM_BYTES)
    except zlib.error:
        return inflated, False
    found.spend(len(inflated) if NUMBERS.match(inflated[:HEAD]) else 0)
    return inflated, inflating.eof
