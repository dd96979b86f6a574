"""Fetch a file over https: `python -m hotdesk.desk.image.fetch URL LIMIT`, to descriptor 1.

The child loads what it needs as root and then becomes a user that owns nothing, so no privileged process parses what a
server sends. Redirects may only lead to https. Their number, the length and the time are limited.
"""

from __future__ import annotations

import codecs
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import unquote, urlsplit

from hotdesk.desk.image.build import is_passed_on
from hotdesk.errors import BriefError, ImageError, make_printable
from hotdesk.linux import jail, uids

_FETCH_TIMEOUT_S = 3600.0
_STALL_TIMEOUT_S = 60.0
_EXIT_TIMEOUT_S = 1.0
_MAX_REDIRECTS = 5
_CHUNK = 1 << 16


def is_url(text: str) -> bool:
    return "://" in text or text.startswith("file:")


def parse_file_url(url: str) -> Path | None:
    """Return the path of a `file:` URL, or `None` for an https URL. Refuse every other URL."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname and not parts.username:
        return None
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        return Path(unquote(parts.path))
    raise BriefError(f"{make_printable(url[:200])!r} cannot be fetched: use https://HOST/PATH or file:///PATH")


@contextmanager
def open_url(url: str, limit: int) -> Iterator[BinaryIO]:
    """Yield the content of an https URL as a stream. Raise `ImageError` if it could not be fetched completely."""
    mortal = ["setpriv", "--pdeathsig", "KILL"]
    env = {key: value for key, value in os.environ.items() if is_passed_on(key)}
    with subprocess.Popen(
        [*mortal, sys.executable, "-P", "-m", "hotdesk.desk.image.fetch", url, str(limit)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd="/",
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            yield child.stdout  # type: ignore[misc]  # a buffered reader
        except ImageError as e:
            with suppress(subprocess.TimeoutExpired):  # the error of a child that ended by itself is more precise
                child.wait(_EXIT_TIMEOUT_S)
            if not child.returncode:
                raise
            why = child.stderr.read(2000).decode(errors="replace").strip().rpartition("\n")[2]
            raise ImageError(f"{make_printable(url[:200])} could not be fetched: {make_printable(why[:500])}") from e
        finally:
            child.kill()


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    max_redirections = _MAX_REDIRECTS
    max_repeats = 1

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError("the server redirects to an address that is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _make_opener() -> urllib.request.OpenerDirector:
    """Return an opener that has handlers for https alone."""
    opener = urllib.request.OpenerDirector()
    context = ssl.create_default_context()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _HttpsRedirects(),
    ):
        opener.add_handler(handler)
    return opener


def main() -> None:
    """Write the content of a URL to descriptor 1."""
    url, limit = sys.argv[1], int(sys.argv[2])
    opener = _make_opener()
    codecs.lookup("idna")
    signal.alarm(int(_FETCH_TIMEOUT_S))
    jail.drop_privileges(uids.FETCHER)
    request = urllib.request.Request(url, headers={"User-Agent": "hotdesk", "Accept-Encoding": "identity"})  # noqa: S310
    try:
        with opener.open(request, timeout=_STALL_TIMEOUT_S) as reply:
            copy(reply, limit)
    except (OSError, HTTPException, ValueError) as e:
        sys.exit(str(e) or type(e).__name__)


def copy(reply: IO[bytes], limit: int) -> None:
    size = 0
    while data := reply.read(_CHUNK):
        size += len(data)
        if size > limit:
            raise ValueError(f"the file has more than {limit} bytes, which is the limit")
        while data:
            data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
