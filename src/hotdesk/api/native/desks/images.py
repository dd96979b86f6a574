"""What desks are opened from over our own API: templates, and nobody's snapshot."""

from __future__ import annotations

from hotdesk.api.e2b.control.snapshots import PREFIX
from hotdesk.api.native.problems import ProblemError


def require_template(image: str) -> None:
    """Refuse an image that is somebody's snapshot, whoever knows its name: images are shared by all tenants."""
    if image.startswith(PREFIX):
        raise ProblemError(404, "image.missing", "there is no such image; a snapshot is opened by E2B's programs")
