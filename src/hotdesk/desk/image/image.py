"""Images on this machine: find one by name, list them. Imports little, because opening a desk imports it."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, ImageError, make_printable

SCHEMA = 1
NAME_SHAPE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
OPAQUE = "trusted.overlay.opaque"
DIGEST_SHAPE = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Image:
    """A root file system desks are opened from."""

    name: str
    digest: str
    """The digest of its recipe, or the sha256 of the imported archive."""
    layers: tuple[Path, ...]
    """Its directories, topmost first, as overlay's `lowerdir` expects them."""
    python: str
    """The path of its interpreter, inside the image."""
    arch: str
    """Its architecture, as in `uname -m`."""
    built: float
    size: int
    """Bytes on disk, including layers that it shares with other images."""
    source: str
    """A description of where it came from."""
    recipe: str = ""
    """The digest of the recipe of an image built elsewhere, as its signer states it."""

    @property
    def built_from(self) -> str:
        """Return the digest of the recipe it was built from, here or elsewhere; empty if it was not built."""
        return self.recipe or (self.digest if self.source.startswith("recipe on ") else "")

    def has(self, path: str) -> bool:
        """Return whether a desk finds a regular file at a path, without following links."""
        return self.find_file(path) is not None

    def find_file(self, path: str) -> Path | None:
        """Return the path in the store of a regular file of the image, without following links. It may be hostile."""
        place, mode = next(self.find_places(path), (None, 0))
        return place if stat.S_ISREG(mode) else None

    def find_places(self, path: str) -> Iterator[tuple[Path, int]]:
        """Yield where the layers have a path, topmost first, and its mode; links are not followed.

        A desk sees the first; if it is a directory, a desk sees it merged with the others.
        """
        for layer in self.layers:
            place, mode, last = layer, stat.S_IFDIR, False
            for part in PurePosixPath(path).parts[1:]:
                if not stat.S_ISDIR(mode):  # a whiteout, a link or a file hides what the layers below have there
                    return
                last = last or (place is not layer and _is_opaque(place))  # the mark has no meaning on a root
                place /= part
                try:
                    mode = place.lstat().st_mode
                except FileNotFoundError:
                    break
            else:
                if stat.S_ISCHR(mode):
                    return
                yield place, mode
                last = last or not stat.S_ISDIR(mode) or _is_opaque(place)
            if last:
                return


def _is_opaque(folder: Path) -> bool:
    """Return whether a directory of a layer hides those of the layers below. Only root can see that."""
    try:
        return os.getxattr(folder, OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def as_name(text: str) -> str:
    if not NAME_SHAPE.fullmatch(text):
        raise BriefError(
            f"{make_printable(text[:80])!r} is not a valid image name; use up to 64 characters of a-z 0-9 . _ -, "
            "starting with a letter or digit"
        )
    return text


def find(store: Path, name: str) -> Image:
    path = get_record_path(store, as_name(name))
    try:
        image = parse(store, path.read_bytes())
    except FileNotFoundError:
        raise ImageError(f"image {name!r} is not on this machine; {describe_remedy(name)}") from None
    except PermissionError as e:
        raise ImageError(f"image {name!r} in {store} cannot be read by this user; run as root") from e
    except ValueError as e:
        raise ImageError(
            f"image {name!r}: {path} is damaged ({e}): remove the file, then build or import the image again"
        ) from e
    for layer in image.layers:
        if not layer.is_dir():
            raise ImageError(
                f"image {name!r} lacks its layer {layer.name[:12]} (folder {layer}); build or import the image again"
            )
    return image


def list_known(store: Path) -> list[str]:
    """List the names of images that exist or have a recipe, as far as this user may read the store."""
    names = {path.stem for path in (Path(__file__).parent / "recipes").glob("*.toml")}
    with suppress(OSError):
        names |= {entry.removesuffix(".json") for entry in os.listdir(store / "images")}
    return sorted(names)


def describe_remedy(name: str) -> str:
    """Return how to get a missing image. Names of existing images are not revealed: not every user may list them."""
    has_recipe = (Path(__file__).parent / "recipes" / f"{name}.toml").exists()
    return f"`hotdesk image build {name}` builds it" if has_recipe else "`hotdesk image ls` lists the images"


class ImageCatalog:
    """Images by name, each read again when its record has changed."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.read: dict[str, tuple[tuple[int, int], Image]] = {}

    def find(self, name: str) -> Image:
        try:
            info = os.stat(get_record_path(self.store, as_name(name)))
        except OSError:
            return find(self.store, name)  # raises the right error
        version = (info.st_ino, info.st_mtime_ns)
        if name not in self.read or self.read[name][0] != version:
            self.read[name] = (version, find(self.store, name))
        return self.read[name][1]


def ls(store: Path) -> list[Image]:
    """List the images here by name, without broken ones."""
    try:
        names = sorted(entry.removesuffix(".json") for entry in os.listdir(store / "images"))
    except FileNotFoundError:
        return []
    except PermissionError as e:
        raise ImageError(f"the images in {store} cannot be read by this user; run as root") from e
    images = []
    for name in names:
        try:
            images.append(find(store, name))
        except (BriefError, ImageError):
            continue
    return images


def get_record_path(store: Path, name: str) -> Path:
    return store / "images" / f"{name}.json"


def get_template_folder(store: Path, digest: str) -> Path:
    return store / "vm" / digest


def parse(store: Path, text: bytes) -> Image:
    """Parse an image's record. Raise `ValueError` with the reason if it is invalid."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ValueError("unknown schema")
    digests = data.get("layers")
    if not isinstance(digests, list) or not digests:
        raise ValueError("no layers")
    if not all(isinstance(each, str) and DIGEST_SHAPE.fullmatch(each) for each in digests):
        raise ValueError("the name of a layer is not a sha256 digest")
    try:
        return Image(
            name=str(data["name"]),
            digest=str(data["digest"]),
            layers=tuple(store / "layers" / each for each in digests),
            python=str(data["python"]),
            arch=str(data["arch"]),
            built=float(data["built"]),
            size=int(data["size"]),
            source=str(data["source"]),
            recipe=str(data.get("recipe", "")),
        )
    except (KeyError, TypeError) as e:
        raise ValueError(f"no {e}") from e


def dump(image: Image) -> bytes:
    """Serialize an image's record, as `parse` reads it."""
    data = {
        "schema": SCHEMA,
        "name": image.name,
        "digest": image.digest,
        "layers": [layer.name for layer in image.layers],
        "python": image.python,
        "arch": image.arch,
        "built": image.built,
        "size": image.size,
        "source": image.source,
        **({"recipe": image.recipe} if image.recipe else {}),
    }
    return json.dumps(data, indent=1).encode() + b"\n"
