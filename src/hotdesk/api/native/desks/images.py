"""Images that desks can be opened from over this API: templates, but no snapshots."""

from __future__ import annotations

from hotdesk.api.e2b.control.snapshots import PREFIX
from hotdesk.api.native.problems import ProblemError


def require_template(image: str) -> None:
    """Refuse an image that is a snapshot, even by name: images are shared by all tenants."""
    if image.startswith(PREFIX):
        raise ProblemError(404, "image.missing", "this API cannot open snapshots; open them through the E2B API")
