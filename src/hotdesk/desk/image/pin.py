"""Pins of images that hibernated desks need: a pinned image keeps its layers, even if its name changes or is removed.

A pin is a file in the store with the image's record and the path of the desk's record. Once the desk's record is gone
the pin no longer counts, so removing a record does not require finding its pins.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from hotdesk.desk.image.image import Image, dump, parse

_FOLDER = "pins"
STAGE = ".stage"
"""Follows a desk's id in the pin of the image that its first process runs in, if that is not the desk's."""


def pin(store: Path, desk: str, image: Image, record: Path) -> None:
    """Keep an image for a hibernated desk for as long as the desk's record exists."""
    path = _get_path(store, desk)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{desk}.new")
    fresh.write_text(json.dumps({"record": str(record), "image": dump(image).decode()}))
    fresh.rename(path)


def unpin(store: Path, desk: str) -> None:
    """Remove a desk's pin. A missing pin is no error."""
    _get_path(store, desk).unlink(missing_ok=True)


def find_pinned(store: Path, desk: str) -> Image | None:
    """Return the image pinned for a desk, or `None` if there is none or one of its layers is lost."""
    try:
        found = json.loads(_get_path(store, desk).read_text())
        image, is_needed = parse(store, found["image"].encode()), os.path.exists(found["record"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return image if is_needed and all(layer.is_dir() for layer in image.layers) else None


def list_pinned(store: Path) -> dict[str, Image]:
    """Return the pinned images, by desk."""
    found = {}
    with suppress(FileNotFoundError):
        for name in os.listdir(store / _FOLDER):
            desk = name.removesuffix(".json")
            if desk != name and (image := find_pinned(store, desk)) is not None:
                found[desk] = image
    return found


def tidy(store: Path) -> None:
    """Remove the pins whose desk record is gone."""
    pinned = list_pinned(store)
    with suppress(FileNotFoundError):
        for name in os.listdir(store / _FOLDER):
            if name.endswith(".json") and name.removesuffix(".json") not in pinned:
                (store / _FOLDER / name).unlink(missing_ok=True)


def _get_path(store: Path, desk: str) -> Path:
    return store / _FOLDER / f"{desk}.json"
