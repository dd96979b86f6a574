"""Tools of a desk that another process of this machine owns, for users other than root."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.remote import RemoteRuntime
from hotdesk.desk.seam import DeskId
from hotdesk.errors import KeeperError
from hotdesk.tool import MAX_CALL_BYTES, Observation

_CALL_TIMEOUT_S = 3700.0
"""Seconds one call may take: a tool's own limit is an hour."""


@dataclass(frozen=True, slots=True)
class LentTools:
    """The tools of one desk, used through its owner."""

    runtime: RemoteRuntime
    desk: DeskId

    async def use(self, name: str, arguments: object) -> Observation:
        """Use a tool through the owner; cancelling this cancels the use."""
        target = f"/desks/{self.desk}/tools/{name}"
        reply = await self.runtime.call("POST", target, arguments or {}, _CALL_TIMEOUT_S, MAX_CALL_BYTES)
        match reply:
            case {"text": str(text), "ok": bool(ok), "note": str(note), "media": str(media), "image": str(image)}:
                return Observation(text, ok, _decode_image(image), media, note=note)
        raise KeeperError("malformed reply from the process that opened the desk; try again")


async def fetch_tools(runtime: RemoteRuntime, desk: DeskId) -> list[Mapping[str, Any]]:
    items = (await runtime.call("GET", f"/desks/{desk}/tools")).get("items")
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []


def _decode_image(image: str) -> bytes:
    try:
        return base64.b64decode(image, validate=True)
    except ValueError as e:
        raise KeeperError("malformed reply from the process that opened the desk; try again") from e
