"""Images on this machine: find one by name, list them. Light, because opening a desk imports it."""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import suppress
from pathlib import Path, PurePosixPath

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, ImageError, make_printable

SCHEMA = 1
NAME_SHAPE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
DIGEST_SHAPE = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Image:
    """A root file system desks are opened from."""

    name: str
    digest: str
    """What it was made from: a recipe's digest, or the sha256 of the archive."""
    layers: tuple[Path, ...]
    """Its directories, topmost first, as overlay's `lowerdir` wants them."""
    python: str
    """Its interpreter, as a path inside."""
    arch: str
    """The machine it is for, as `uname -m` says it."""
    built: float
    size: int
    """Bytes on disk, those of layers it shares included."""
    source: str
    """Where it came from, in words."""
    recipe: str = ""
    """Of an image built elsewhere: the digest of its recipe, as its signer says."""

    @property
    def built_from(self) -> str:
        """Return the digest of the recipe it was built from, here or elsewhere; empty: it was not."""
        return self.recipe or (self.digest if self.source.startswith("recipe on ") else "")

    def has(self, path: str) -> bool:
        """Return whether a desk finds a file there: the topmost layer decides that has it, or has it removed."""
        return self.find_file(path) is not None

    def find_file(self, path: str) -> Path | None:
        """Return a plain file of the image in the store; links are not followed. Its content may be hostile."""
        for layer in self.layers:
            place = layer
            for part in PurePosixPath(path).parts[1:]:
                place /= part
                try:
                    mode = place.lstat().st_mode
                except (FileNotFoundError, NotADirectoryError):
                    break
                if stat.S_ISCHR(mode) or stat.S_ISLNK(mode):  # overlay's mark for what was removed; or it is elsewhere
                    return None
            else:
                return place if stat.S_ISREG(mode) else None
        return None


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
            raise ImageError(f"image {name!r} lacks its layer {layer}; build or import the image again")
    return image


def list_known(store: Path) -> list[str]:
    """List the names of images that are here or have a recipe, as far as this user may list them."""
    names = {path.stem for path in (Path(__file__).parent / "recipes").glob("*.toml")}
    with suppress(OSError):
        names |= {entry.removesuffix(".json") for entry in os.listdir(store / "images")}
    return sorted(names)


def describe_remedy(name: str) -> str:
    """Describe how to get an image that is missing; what images there are is for who may list them."""
    has_recipe = (Path(__file__).parent / "recipes" / f"{name}.toml").exists()
    return f"`hotdesk image build {name}` builds it" if has_recipe else "`hotdesk image ls` lists the images"


class ImageCatalog:
    """Images by name, each read again when its description is another."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.read: dict[str, tuple[tuple[int, int], Image]] = {}

    def find(self, name: str) -> Image:
        try:
            info = os.stat(get_record_path(self.store, as_name(name)))
        except OSError:
            return find(self.store, name)  # which says what is wrong
        version = (info.st_ino, info.st_mtime_ns)
        if name not in self.read or self.read[name][0] != version:
            self.read[name] = (version, find(self.store, name))
        return self.read[name][1]


def ls(store: Path) -> list[Image]:
    """List the images here, by name; a broken one is left out."""
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
    """Read an image's description; `ValueError` says what is wrong with it."""
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
    """Write an image's description, as `parse` reads it."""
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
