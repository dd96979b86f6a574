"""A client for a provider: its own library, with retries, time limits and a count of bytes sent."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from contextvars import ContextVar
from dataclasses import field
from importlib import import_module
from itertools import count
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import anyio

from hotdesk.brain.models import allowed
from hotdesk.brain.models.retry import find_backoff, find_retry_after, is_overload, is_passing
from hotdesk.brain.models.seam import RequestTooLongError
from hotdesk.dataclass import dataclass
from hotdesk.errors import ModelError, explain_extra, make_printable

Events: TypeAlias = AsyncGenerator[dict[str, Any], None]
Answer = TypeVar("Answer")
MAX_REPLY_BYTES = 16 << 20
"""Bytes of all events of one reply."""
_DRAIN_TIMEOUT_S = 0.5
_REPORTED_S = 2.0
"""Seconds from which a wait that no provider requested is reported."""
PASSING = ("overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error", "rate_limit_exceeded")
"""Errors in the middle of a stream that may be temporary."""
_OVERLOADS = ("overloaded_error", "rate_limit_error", "rate_limit_exceeded")
"""Those of them that waiting helps against."""
_UNPAID = ("insufficient_quota", "billing_not_active")
"""Errors with the status of an overload that waiting does not help against."""
DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")
"""Addresses that never use a proxy, whatever the environment says."""
_REMEDIES = {
    400: "the provider rejected this request: try another model",
    401: "the provider rejected the API key: set a valid key in {variable}",
    403: "the API key is not allowed to use this model: set another key in {variable}, or use another model",
    404: "the provider does not know this model: use another model",
    413: "the request is too large: plan smaller steps",
    422: "the provider rejected this request: try another model",
    429: "the provider's rate limit is reached: resume the job later, or use another model",
}


_DETAIL = 2000
"""Characters of a refusal that are searched for what it says about the model."""
_LEAST_SECRET = 8
"""Characters of the shortest key that is hidden in messages: a shorter one may be a common word."""
LATER = "resume the job later, or use another model"
_NO_REPLY = "gave no usable reply"
TOO_LONG = (
    "context size", "context length", "context limit", "context window", "context_length", "prompt is too long"
)  # fmt: skip
"""Texts with which providers and servers say that a request does not fit."""
_FEWER = (
    "the request does not fit the model's context window: list fewer tools in the step or use another model; for "
    "your own model server, set HOTDESK_CHAT_WINDOW to its context window in tokens"
)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a model."""

    connect: float = 10.0
    silence: float = 300.0
    """Seconds without any data before a request fails."""
    retries: int = 4
    """Repetitions of a request after a failed connection or a server's error. An overload is waited out."""
    tries: int = 3
    """Attempts at a whole request whose reply was cut off."""
    longest: float = 900.0
    """Seconds for all attempts together."""
    alternative: float = 30.0
    """Seconds after which no attempt is repeated if another model can be asked instead."""
    pause: float = 0.5
    """Seconds before the second attempt; twice that before the third, up to a minute."""


class ReplyCutError(Exception):
    """A reply was cut off; the text says how."""


class OverloadedReplyError(ReplyCutError):
    """A reply was cut off because the provider has too much to do."""


class ProviderError(Exception):
    """A provider reported a failure in the middle of its reply."""


class RefusedRequestError(ModelError):
    """A provider refused a request as invalid: `detail` is its message, bounded and printable."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(slots=True)
class AskRecord:
    """The bytes and notes of one request."""

    sent: list[int] = field(default_factory=list)
    """Bytes of each body."""
    notes: list[str] = field(default_factory=list)
    until: float = math.inf
    """When no attempt is repeated any more."""


UNDER_WAY: ContextVar[AskRecord] = ContextVar("UNDER_WAY")
"""The record of the current request."""


class ProviderClient:
    """One provider's library, one client of it, and its error messages."""

    def __init__(
        self, name: str, package: str, client: str, variable: str, patience: Patience | None, options: dict[str, Any],
        own: tuple[str, str] = ("", ""),
    ) -> None:  # fmt: skip
        """`variable` has the key if `options` do not; `own`: the vendor's address, and what overrides it."""
        vendor, override = own
        base_url = options.get("base_url") or os.environ.get(override) or vendor
        self.address = "" if _is_same_address(base_url, vendor) else _show_address(base_url)
        """The server's address; empty if it is the vendor's own."""
        self.notify: Callable[[str], None] | None = None
        self.name = name
        self.variable = variable
        self.patience = patience or Patience()
        self.options = {key: value for key, value in options.items() if value is not None}
        try:
            self.sdk: Any = import_module(package)
            self.http: Any = import_module("httpx2")
        except ImportError as e:
            missing = f"the library `{package}` is not installed; {explain_extra('models')}"
            raise ModelError(f"{name} cannot be used: {missing}") from e
        self.make = getattr(self.sdk, client)
        self.error: type[Exception] = getattr(self.sdk, "AnthropicError", None) or self.sdk.OpenAIError
        self.client: Any = None

    async def ask(
        self,
        begin: Callable[[Any], Awaitable[Any]],
        gather: Callable[[Events], Awaitable[Answer]],
        *,
        has_alternative: bool = False,
    ) -> tuple[Answer, int, tuple[str, ...]]:
        """Begin a stream and gather it, again if it is cut off; return also the bytes that were sent, and notes.

        `has_alternative` is whether another model can be asked, so that a long overload is not waited out.
        """
        record = AskRecord()
        if has_alternative:
            record.until = anyio.current_time() + self.patience.alternative
        token = UNDER_WAY.set(record)
        try:
            with anyio.fail_after(self.patience.longest):
                return await self.retry(begin, gather), sum(record.sent), tuple(record.notes)
        except TimeoutError as e:
            why = f"the reply was not complete after {self.patience.longest:g} seconds"
            raise self.build_error(why, LATER, _NO_REPLY) from e
        finally:
            UNDER_WAY.reset(token)

    def tell(self, note: str) -> None:
        if self.notify is not None:
            self.notify(f"{self.name}: {make_printable(note)}")

    async def retry(
        self, begin: Callable[[Any], Awaitable[Any]], gather: Callable[[Events], Awaitable[Answer]]
    ) -> Answer:
        tried = overloaded = 0
        while True:
            try:
                return await self.try_once(begin, gather)
            except OverloadedReplyError as e:
                await self.wait(None, overloaded, make_printable(str(e))[:300])
                overloaded += 1
            except ReplyCutError as e:
                tried += 1
                why = make_printable(str(e))[:300]
                if tried >= self.patience.tries:
                    raise self.build_error(why, LATER, f"{_NO_REPLY} in {self.patience.tries} attempts") from e
                await anyio.sleep(find_backoff(self.patience.pause, tried - 1))

    async def try_once(
        self, begin: Callable[[Any], Awaitable[Any]], gather: Callable[[Events], Awaitable[Answer]]
    ) -> Answer:
        try:
            stream = await self.start_stream(begin)
            async with stream, aclosing(self.read(stream)) as events:
                try:
                    return await gather(events)
                finally:
                    await drain(events)
        except ProviderError as e:
            failed = self.build_error(make_printable(str(e))[:300], "use another model", _NO_REPLY)
            raise RequestTooLongError(str(failed)) if _is_too_long(400, str(e)) else failed from e
        except self.sdk.APIStatusError as e:
            raise self.build_refusal(e) from e
        except self.sdk.APIConnectionError as e:
            where = make_printable(str(self.client.base_url))[:200]
            raise self.build_error(
                f"{where} does not respond: {self.describe(e)}", "check that the server is running and reachable"
            ) from e
        except self.error as e:
            raise self.build_error(self.describe(e), LATER) from e
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError) as e:
            why = f"the reply is malformed: {self.describe(e)}"
            raise self.build_error(why, "use another model", _NO_REPLY) from e

    async def start_stream(self, begin: Callable[[Any], Awaitable[Any]]) -> Any:
        """Begin a stream; wait after temporary failures, as long as the provider requests and there is time."""
        for tried in count():
            try:
                return await self.start_once(begin)
            except self.sdk.APIStatusError as e:
                may_repeat = tried < self.patience.retries or (
                    is_overload(e.status_code) and get_kind(e) not in _UNPAID
                )
                if not may_repeat or not is_passing(e.status_code, e.response.headers):
                    raise
                await self.wait(find_retry_after(e.response.headers), tried, f"status {e.status_code}")
            except self.sdk.APIConnectionError as e:
                if tried >= self.patience.retries:
                    raise
                await self.wait(None, tried, type(e).__name__)
        raise AssertionError("the attempts are not counted")

    async def start_once(self, begin: Callable[[Any], Awaitable[Any]]) -> Any:
        """Begin a stream; an error that is not from the provider means a missing key."""
        try:
            return await begin(self.open_client())
        except self.sdk.APIError:
            raise
        except (self.error, TypeError) as e:  # the two libraries raise different errors
            keyless = not self.options.get("api_key") and not os.environ.get(self.variable)
            raise self.build_error("no API key was found" if keyless else self.describe(e), "set {variable}") from e

    async def wait(self, retry_after: float | None, tried: int, why: str) -> None:
        """Wait before the next attempt; raise `ModelError` if the provider requests more time than is left."""
        record = UNDER_WAY.get()
        seconds = max(retry_after or 0.0, find_backoff(self.patience.pause, tried, secrets.randbelow(1001) / 1000))
        remaining = min(anyio.current_effective_deadline(), record.until) - anyio.current_time()
        if seconds >= remaining:
            rest = f"{max(remaining, 0):,.0f}"
            times = f"the next attempt is due in {seconds:,.0f} seconds, but this call must end within {rest} seconds"
            raise self.build_error(f"{why}: {times}", LATER)
        if retry_after is not None or seconds >= _REPORTED_S:
            requested = ", as the provider requests," if seconds == retry_after else ""
            note = f"{why}: waiting {seconds:.3g} seconds{requested} before attempt {tried + 2}"
            record.notes.append(note)
            self.tell(note)
        await anyio.sleep(seconds)

    async def read(self, stream: Any) -> Events:
        """Yield a stream's events as plain data; raise `ReplyCutError` if it is cut off."""
        remaining = MAX_REPLY_BYTES
        try:
            async for event in stream:
                data = event.to_dict(mode="json", warnings=False)
                remaining -= len(json.dumps(data, allow_nan=False))
                if remaining < 0:
                    why = f"the reply is larger than {MAX_REPLY_BYTES >> 20} MiB"
                    raise self.build_error(why, "use another model", _NO_REPLY)
                yield data
        except (self.sdk.APIConnectionError, self.http.HTTPError, ValueError) as e:
            raise ReplyCutError(f"the reply was cut off ({type(e).__name__})") from e
        except self.sdk.APIError as e:
            if get_kind(e) in PASSING:
                raise build_interruption(get_kind(e), self.describe(e)) from e
            raise

    def open_client(self) -> Any:
        """Return the client; its connections belong to this event loop."""
        if self.client is None:
            http = self.http.AsyncClient(
                timeout=self.http.Timeout(self.patience.silence, connect=self.patience.connect),
                event_hooks={"request": [self.count]},
                mounts=dict.fromkeys(DIRECT),
            )
            self.client = self.make(http_client=http, max_retries=0, **self.options)
        allowed.check(str(self.client.base_url), self.name)
        return self.client

    async def count(self, request: Any) -> None:
        """Count the bytes of a request, and check its address a last time. Redirections are not followed."""
        allowed.check(str(request.url), self.name)
        UNDER_WAY.get().sent.append(len(request.content))

    def describe(self, error: Exception, most: int = 300) -> str:
        return make_printable(self.hide_key(f"{type(error).__name__}: {error}"))[:most]

    def hide_key(self, text: str) -> str:
        for secret in (getattr(self.client, "api_key", None), getattr(self.client, "auth_token", None)):
            if isinstance(secret, str) and len(secret) >= _LEAST_SECRET:
                text = text.replace(secret, "***")
        return text

    def build_error(self, why: str, remedy: str, what: str = "could not be called") -> ModelError:
        return ModelError(f"{self.name} {what}: {why}; {remedy.format(variable=self.variable)}")

    def build_refusal(self, error: Any) -> ModelError:
        """Return the error of a refused request; its class shows whether it may work without some feature."""
        failed = self.build_error(self.describe(error), _choose_remedy(error))
        if _is_too_long(error.status_code, str(error)):
            return RequestTooLongError(str(failed))
        if error.status_code not in (400, 422):
            return failed
        return RefusedRequestError(
            str(failed), self.hide_key(_find_detail(error.body)) or self.describe(error, _DETAIL)
        )

    async def close(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with anyio.move_on_after(5, shield=True):
                await client.close()


def _is_too_long(status: int, message: str) -> bool:
    """Return whether a provider refused a request because it is too long."""
    return status == 413 or (status in (400, 422) and any(words in message.lower() for words in TOO_LONG))


def _choose_remedy(error: Any) -> str:
    if error.status_code != 413 and _is_too_long(error.status_code, str(error)):
        return _FEWER
    return _REMEDIES.get(error.status_code, LATER)


async def drain(events: Events) -> None:
    """Try briefly to read a stream to its end: the library closes an unfinished reader at an unknown time."""
    with anyio.move_on_after(_DRAIN_TIMEOUT_S, shield=True), suppress(Exception):
        async for _ in events:
            pass


def build_interruption(kind: str, why: str) -> ReplyCutError:
    """Return the error for a temporary failure in the middle of a reply."""
    cut = OverloadedReplyError if kind in _OVERLOADS else ReplyCutError
    return cut(f"the provider stopped in the middle of the reply: {why}")


def get_kind(error: Any) -> str:
    match error.body:
        case {"error": {"type": str(name)}} | {"type": str(name)} | {"code": str(name)}:
            return name
    return ""


def _find_detail(body: object) -> str:
    """Return the message of a refusal, and the parameter it names; empty if there is no readable one."""
    match body:
        case {"error": dict(error)} | dict(error) if isinstance(message := error.get("message"), str):
            param = error.get("param")
            named = f" [{make_printable(param)[:100]}]" if isinstance(param, str) else ""
            return make_printable(message)[:_DETAIL] + named
    return ""


def _is_same_address(url: str, vendor: str) -> bool:
    return bool(vendor) and url.rstrip("/").removesuffix("/v1") == vendor.rstrip("/").removesuffix("/v1")


def _show_address(url: str) -> str:
    """Format an address for permanent records: without user name, password or query."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        place = f"{host}:{parts.port}" if parts.port else host
    except ValueError:
        return "an invalid address"
    return make_printable(f"{parts.scheme}://{place}{parts.path.rstrip('/')}")[:200]
