"""Host names in one canonical form: lower-case ASCII names, addresses, and patterns of either.

Each function raises `ValueError` with a reason that completes the sentence "the host …".
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, NetmaskValueError

from hotdesk.brief.remedy import RemedyError

LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME_SHAPE = re.compile(rf"{LABEL}(?:\.{LABEL})*")
NUMBER_SHAPE = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""Names that some programs parse as an address: `1.2.3`, `127.1`, `0x7f000001`."""
_QUAD_SHAPE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_AUTHORITY_SHAPE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([1-9][0-9]{0,4}))?")
STOPS = "\u3002\uff0e\uff61"
"""Full stops of other scripts."""
_DEVIATIONS = "ßẞςǰΐΰ\u200c\u200d"
"""Characters that IDNA 2003 and its successors encode differently, so that one spelling has two names."""
WIDEST = {4: 8, 6: 7}
"""Shortest prefix of a network in a rule, by IP version."""
_LONG_HOST = 40
"""Length above which the end of a host name may be cut off or overlooked."""
SHARED = frozenset(
    """
    ac.jp ac.uk asn.au co.id co.il co.in co.jp co.ke co.kr co.nz co.th co.uk co.za com.ar com.au com.bd com.br com.cn
    com.co com.eg com.hk com.mx com.my com.ng com.pe com.ph com.pk com.pl com.sa com.sg com.tr com.tw com.ua com.vn
    edu.au edu.cn firm.in gen.in go.jp gob.mx gov.au gov.br gov.cn gov.in gov.uk gr.jp id.au ltd.uk me.uk ne.jp net.au
    net.br net.cn net.in net.nz net.uk nhs.uk nic.in or.jp or.kr org.au org.br org.cn org.in org.nz org.uk org.za plc.uk
    police.uk sch.uk web.id
    amazonaws.com amplifyapp.com appspot.com azureedge.net azurewebsites.net blogspot.com cloudfront.net
    cloudapp.net core.windows.net blob.core.windows.net deno.dev duckdns.org elasticbeanstalk.com firebaseapp.com
    fly.dev github.io githubusercontent.com gitlab.io glitch.me googleapis.com herokuapp.com lambda-url.aws
    myshopify.com netlify.app ngrok.app ngrok.dev ngrok.io ngrok-free.app nip.io onrender.com pages.dev r2.dev
    readthedocs.io replit.app repl.co run.app s3.amazonaws.com sslip.io surge.sh trycloudflare.com vercel.app web.app
    windows.net workers.dev wordpress.com xip.io
    """.split()
)
"""Suffixes below which anyone can register names. Only common ones: the complete list needs a network."""


def canonicalize_name(text: str) -> str:
    """Return a name in lower-case ASCII without a trailing dot."""
    if not text.isascii():
        raise RemedyError("is not plain ASCII; write the host in punycode (`xn--…`)")
    name = text.lower().removesuffix(".")
    if not NAME_SHAPE.fullmatch(name) or len(name) > 253:
        raise ValueError("is not a host name: use labels of letters, digits, `-` and `_`, separated by single dots")
    if NUMBER_SHAPE.fullmatch(name):
        raise RemedyError("is a number that some programs read as an address; write an address like `192.0.2.1`")
    return name


def _canonicalize_address(text: str) -> str:
    try:
        address = IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        raise RemedyError("is not an address; write it like `192.0.2.1` or `[2001:db8::1]`") from None
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address.ipv4_mapped is not None):
        raise RemedyError(
            "is an address with a zone, or an IPv4 address written as IPv6; write an address like `192.0.2.1`"
        )
    return str(address)


def canonicalize_host(text: str) -> str:
    """Return the canonical name or address of a request or a grant. IPv6 is written in brackets, returned without."""
    if text.startswith("[") and text.endswith("]"):
        if ":" not in text:
            raise ValueError("has brackets, but is not an IPv6 address such as `[2001:db8::1]`")
        return _canonicalize_address(text[1:-1])
    return _canonicalize_address(text) if _QUAD_SHAPE.fullmatch(text) else canonicalize_name(text)


def canonicalize_pattern(text: str) -> str:
    """Return the canonical host pattern of a rule: a name in any script, `*.` and a name, an address or a network."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if "/" in bare:
        return _canonicalize_network(bare)
    if ":" in bare or _QUAD_SHAPE.fullmatch(bare):
        return _canonicalize_address(bare)
    if text.startswith("*."):
        return f"*.{narrow(_encode_host_name(text[2:]))}"
    if "*" in text:
        raise RemedyError("has a `*` in the wrong place: it must be the whole first label, as in `*.example.test`")
    return _encode_host_name(text)


def _canonicalize_network(text: str) -> str:
    try:
        network = IPv6Network(text) if ":" in text else IPv4Network(text)
    except (AddressValueError, NetmaskValueError):
        raise RemedyError("is not a network; write it like `[192.0.2.0/24]`") from None
    except ValueError:
        raise RemedyError("is a network with host bits set; write its first address, as in `[192.0.2.0/24]`") from None
    if network.prefixlen < WIDEST[network.version]:
        raise RemedyError(f"is a network wider than /{WIDEST[network.version]}; write a smaller network")
    return _canonicalize_address(str(network[0])) if network.num_addresses == 1 else str(network)


def _encode_host_name(text: str) -> str:
    if text.isascii():
        return canonicalize_name(text)
    if any(c in _DEVIATIONS or c in STOPS for c in text):
        raise RemedyError(
            "has a character that programs encode in different ways; write the host in punycode (`xn--…`)"
        )
    try:
        encoded = text.encode("idna").decode("ascii")
    except UnicodeError:
        raise RemedyError(
            "has a character that a host name cannot have; write the host in punycode (`xn--…`)"
        ) from None
    return canonicalize_name(encoded)


def narrow(suffix: str) -> str:
    """Return a wildcard's suffix; refuse one below which anyone can register names."""
    if "." not in suffix or suffix in SHARED:
        raise RemedyError(
            f"covers the domains of many owners, because anyone can register a name below {suffix!r}; write a longer "
            f"suffix, such as `*.example.{suffix}`"
        )
    return suffix


def get_registrable_domain(host: str) -> str:
    """Return the registered part of a host name; its owner chooses what precedes it."""
    name = host.removeprefix("*.")
    labels = name.split(".")
    if is_address(name):
        return name
    ends = (".".join(labels[-count:]) for count in range(2, len(labels)))
    return next((end for end in ends if end not in SHARED), name)


def put_domain_first(host: str, text: str) -> str:
    """Put the domain before a text about a long host name, because the domain's owner chooses how the name begins."""
    return f"{get_registrable_domain(host)}: {text}" if len(host) > _LONG_HOST else text


def split_authority(text: str) -> tuple[str, int | None]:
    """Return the canonical host of `host[:port]`, and the port or `None`."""
    found = _AUTHORITY_SHAPE.fullmatch(text)
    if not found or (found[2] and int(found[2]) > 65535):
        raise ValueError("does not have the form `host` or `host:port`")
    return canonicalize_host(found[1]), int(found[2]) if found[2] else None


def bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_address(host: str) -> bool:
    return ":" in host or "/" in host or bool(_QUAD_SHAPE.fullmatch(host))
