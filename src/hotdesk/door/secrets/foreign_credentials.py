"""Find credentials that a desk must not send to a host it uses with a grant, by header and field names. Pure.

A header that is not listed is removed; one whose name says that it is a credential refuses the request and raises an
alarm. Query parameters and body fields cannot be listed for every host: those with the names of credentials are
refused. A grant lists exceptions (`allow-header`, `allow-field`), or admits the desk's own credentials at its host
(`foreign`).

Not found: a credential in the path (a webhook's address), under an unsuspicious name, by position (the arguments of a
remote call), inside a query language, or in a type of body that is not inspected (see `credential_fields`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

from hotdesk.dataclass import dataclass
from hotdesk.door.grant import LiveGrant, Refusal, Returning, SecretUse, Sign
from hotdesk.door.secrets.outgoing import IDENTITY, Slot

ORDINARY = frozenset(
    """
    accept accept-charset accept-datetime accept-encoding accept-language access-control-request-headers
    access-control-request-method cache-control content-digest content-disposition content-encoding content-language
    content-length content-location content-md5 content-range content-type date depth digest dnt expect git-protocol
    grpc-timeout host idempotency-key if if-match if-modified-since if-none-match if-range if-unmodified-since
    last-event-id last-modified lock-token max-forwards origin overwrite pragma prefer priority range referer save-data
    sec-gpc sec-purpose slug soapaction timeout traceparent tracestate upgrade-insecure-requests user-agent
    baggage csrf-token x-csrf-token x-csrftoken x-xsrf-token requestverificationtoken
    dataserviceversion maxdataserviceversion odata-maxversion
    hx-boosted hx-current-url hx-history-restore-request hx-request hx-target hx-trigger hx-trigger-name
    turbo-frame x-grpc-web x-inertia x-pjax x-requested-with
    x-correlation-id x-request-id
    """.split()
)
"""Headers that no server known to us uses to identify the sender: any desk may send them to any host."""
_ORDINARY_SHAPE = re.compile(r"sec-(?:ch|fetch)-[a-z0-9-]+|(?:[a-z0-9]+-)*version")
"""Headers in which browsers describe themselves, and requests for a version of an interface."""
_AMAZON_SHAPE = re.compile(r"x-amz-[a-z0-9-]+")
"""Headers allowed in a request that is signed again, because the granted key signs all of them."""
_CREDENTIAL_HEADERS = frozenset(
    """
    authentication x-auth x-auth-email authorization x-authorization x-amz-security-token x-ms-authorization-auxiliary
    x-forwarded-user x-remote-user remote-user x-user x-ssl-client-cert x-client-cert client-cert
    """.split()
)
"""Headers that are credentials, beside those whose names match `CREDENTIAL_SHAPE`."""
_CREDENTIAL_NAMES = frozenset(
    """
    auth authorization bearer cookie jwt key pass passwd password passphrase pwd secret sid sig signature token
    googleaccessid awsaccesskeyid accesskeyid xamzcredential xgoogcredential oauthconsumerkey oauthnonce
    """.split()
)
CREDENTIAL_SHAPE = re.compile(
    r"(?:.*(?:token|secret|passwd|password|passphrase|passcode|credentials?|signature|jwt|assertion|authorization|bearer"
    r"|cookie|sessionid|sessid|(?:api|app|application|access|account|auth|client|consumer|functions|fastly|license"
    r"|master|private|secret|security|service|session|shared|signing|storage|subscription|user|admin|rapidapi|developer)"
    r"(?:api)?(?:key|keyid|pwd|sig))|.*(?:apikey|authkey))"
)
_HARMLESS_SHAPE = re.compile(
    r"(?:.*(?:page|pagination|paging|next|prev|previous|continuation|continue|cursor|start|skip|sync|delta|resume|idempotency"
    r"|client|clientrequest|csrf|csrfmiddleware|xsrf|authenticity|requestverification|antiforgery|lock)token)"
)
"""Page cursors, request ids and CSRF tokens: they identify no one."""
_FORGERY = "_token"
"""The CSRF token of forms at Laravel and others; only its first character distinguishes it from `token`."""
LONGEST_NAME = 160
"""Characters of a name that are checked. Of a longer name the end is: that is where names say what they are."""
_BODY_ALLOWS = frozenset({"key", "sid", "cookie", "pass", "auth"})
"""Names that usually mean something else in a body."""


@dataclass(frozen=True, slots=True)
class AllowedCredentials:
    """The credentials that grants let a desk send to their host, beside ordinary headers."""

    headers: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    """Names of fields, folded by `fold_name`."""
    amazon: bool = False
    """Whether requests to this host are signed again."""


_NOTHING_MORE = AllowedCredentials()


def collect_allowed(host: str, grants: Collection[LiveGrant]) -> AllowedCredentials:
    here = [one for one in grants if one.grant.host == host]
    if not any(one.grant.allow_headers or one.grant.allow_fields or one.kind == "sigv4" for one in here):
        return _NOTHING_MORE
    headers = frozenset(name for one in here for name in one.grant.allow_headers)
    fields = frozenset(fold_name(name) for one in here for name in one.grant.allow_fields)
    return AllowedCredentials(headers, fields, any(one.kind == "sigv4" for one in here))


def screen_credentials(
    sent: list[tuple[Slot, bytes]],
    uses: Mapping[Slot, SecretUse],
    returned: Mapping[Slot, bytes],
    issued: Returning | None,
    allowed: AllowedCredentials,
) -> frozenset[str] | Refusal:
    """Return the headers to remove where the desk uses a grant, or refuse credentials of its own."""
    removed: set[str] = set()
    for slot, value in sent:
        kind, name = slot
        if kind == "header" and len(name) <= LONGEST_NAME and _is_ordinary(name):
            continue
        if slot in returned or (slot in uses and uses[slot].live_grant.is_written(slot, value)):
            continue
        if kind == "cookie" and (slot in uses or (issued and issued.knows(name.encode("latin-1"), value))):
            continue
        if kind == "header" and (name in allowed.headers or (allowed.amazon and _is_amazon(name))):
            continue
        if kind == "cookie" or (is_credential(kind, name[-LONGEST_NAME:]) and fold_name(name) not in allowed.fields):
            return refuse_credential(kind, name)
        if kind == "header":
            removed.add(name)
    return frozenset(removed)


def refuse_credential(kind: str, name: str) -> Refusal:
    """Refuse a credential of the desk's own, and explain how to allow it."""
    remedy = {"header": f"allow-header={name}", "cookie": "foreign"}.get(kind, f"allow-field={name}")
    reason = (
        f"this host may only be used with the credentials granted for it; {kind} {name!a:.60} would send other ones."
        f" Leave it out; if it is not a credential, the grant needs {remedy!a:.80}"
    )
    return Refusal(reason, (Sign("foreign", ""),))


@lru_cache(maxsize=1024)
def _is_ordinary(name: str) -> bool:
    return name in ORDINARY or name.encode("latin-1") == IDENTITY or _ORDINARY_SHAPE.fullmatch(name) is not None


def _is_amazon(name: str) -> bool:
    """Return whether a header belongs to a signed request and is not itself a credential."""
    return _AMAZON_SHAPE.fullmatch(name) is not None and name not in _CREDENTIAL_HEADERS


@lru_cache(maxsize=4096)
def is_credential(kind: str, name: str) -> bool:
    if kind == "header" and name in _CREDENTIAL_HEADERS:
        return True
    text = fold_name(name)
    if name.strip().lower() == _FORGERY or _HARMLESS_SHAPE.fullmatch(text):
        return False
    if text in _CREDENTIAL_NAMES:
        return kind not in ("JSON field", "XML element", "multipart field") or text not in _BODY_ALLOWS
    return CREDENTIAL_SHAPE.fullmatch(text) is not None


def fold_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.lower())
