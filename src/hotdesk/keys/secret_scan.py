"""Finds secrets in bytes that will outlive a desk: the encodings that the door scrubs, and placeholders."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from hotdesk.door import canary
from hotdesk.door.secrets.placeholder import PLACEHOLDER, name_in
from hotdesk.door.secrets.scrub import Scrubber, list_scrubbed_secrets
from hotdesk.keys.charter import Granted


def find_secrets(data: bytes, granted: Iterable[Granted]) -> tuple[str, ...]:
    """Return the names of secrets whose value or placeholder occurs in some bytes, except values under 16 bytes."""
    names: dict[str, str] = {}
    scrubber = Scrubber()
    for number, one in enumerate(each for each in granted if each.grant != canary.GRANT):
        names[str(number)] = one.grant.secret
        if "value" in one.values:
            for secret in list_scrubbed_secrets(
                str(number), one.grant.secret, one.kind, base64.b64decode(one.values["value"])
            ):
                scrubber.add(secret)
    stream = scrubber.stream()
    stream.feed_last(data)
    found = {names[each] for each in stream.hits}
    return tuple(sorted(found | {name_in(each) for each in PLACEHOLDER.findall(data)}))
