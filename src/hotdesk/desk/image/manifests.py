"""Find the layers of an image archive from the manifests of an OCI layout or `docker save`. All input is hostile."""

from __future__ import annotations

import hashlib
import json
import re
from typing import IO, Protocol, TypeVar

from hotdesk.errors import ImageError, make_printable

DIGEST_SHAPE = re.compile(r"sha256:([0-9a-f]{64})")
_MACHINES = {"aarch64": "arm64", "x86_64": "amd64"}
JSON_LIMIT = 4 << 20
INDEX = "index.json"
"""The file of an OCI layout that names all others."""
_LAYER_LIMIT = 512
_NESTING_LIMIT = 4

T = TypeVar("T")


class ArchiveParts(Protocol):
    """The named files of a layout."""

    def open(self, name: str) -> IO[bytes]:
        """Open a part. Raise `ImageError` if it is missing."""
        ...


def read_oci_layers(parts: ArchiveParts, machine: str) -> list[tuple[str, str]]:
    """Return the names and digests of this machine's layers in an OCI layout, lowest first."""
    manifest = read_json(parts, INDEX, None)
    for _ in range(_NESTING_LIMIT):
        if "manifests" not in manifest:
            break
        manifest = _read_blob(parts, _choose_manifest(_read_descriptors(manifest, "manifests"), machine))
    config = manifest.get("config")
    if isinstance(config, dict):
        require_machine(_read_blob(parts, config), machine)
    return [
        (get_blob_name(each), str(each["digest"])) for each in _check_layer_count(_read_descriptors(manifest, "layers"))
    ]


def read_docker_layers(parts: ArchiveParts, machine: str) -> list[tuple[str, str]]:
    """Return the layers of a `docker save`, lowest first, as names and digests of their uncompressed content."""
    with parts.open("manifest.json") as file:
        images = _load_json(file.read(JSON_LIMIT + 1), "manifest.json")
    if not isinstance(images, list) or len(images) != 1 or not isinstance(images[0], dict):
        raise ImageError("the archive must contain exactly one image; save one with `docker save NAME`")
    layers, config = images[0].get("Layers"), images[0].get("Config")
    if not isinstance(layers, list) or not all(isinstance(each, str) for each in layers):
        raise ImageError("the archive's manifest.json lists no layers")
    facts = read_json(parts, str(config), None)
    require_machine(facts, machine)
    rootfs = facts.get("rootfs")
    digests = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(digests, list) or len(digests) != len(layers):
        raise ImageError(
            "the image configuration in the archive does not list one digest for each layer (`rootfs.diff_ids`)"
        )
    return [(name, str(digest)) for name, digest in zip(_check_layer_count(layers), digests, strict=True)]


def _choose_manifest(manifests: list[dict[str, object]], machine: str) -> dict[str, object]:
    """Pick the manifest for a machine: the matching one, or the only one without a platform."""
    architecture = _MACHINES.get(machine, machine)
    silent, others = [], []
    for each in manifests:
        platform = each.get("platform")
        if not isinstance(platform, dict):
            silent.append(each)
        elif platform.get("architecture") == architecture and platform.get("os", "linux") == "linux":
            return each
        else:
            others.append(str(platform.get("architecture")))
    if len(silent) == 1:
        return silent[0]
    found = f", only for {make_printable(', '.join(others))[:80]}" if others else ""
    raise ImageError(f"the archive has no image for {architecture}{found}; save one for {architecture}")


def require_machine(config: dict[str, object], machine: str) -> None:
    found, expected = config.get("architecture"), _MACHINES.get(machine, machine)
    if found not in (None, "", expected):
        raise ImageError(
            f"the image is for {make_printable(str(found))[:40]}, but this machine needs an image for {expected}"
        )


def _check_layer_count(layers: list[T]) -> list[T]:
    if not 0 < len(layers) <= _LAYER_LIMIT:
        raise ImageError(f"the image has {len(layers)} layers; it must have 1 to {_LAYER_LIMIT}")
    return layers


def _read_descriptors(data: dict[str, object], key: str) -> list[dict[str, object]]:
    value = data.get(key)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ImageError(f"`{key}` in the OCI layout is not a list of descriptors")
    return value


def get_blob_name(descriptor: dict[str, object]) -> str:
    """Return the name of the blob of a descriptor. Only a sha256 digest becomes part of a path."""
    match = DIGEST_SHAPE.fullmatch(str(descriptor.get("digest")))
    if match is None:
        shown = make_printable(str(descriptor.get("digest")))[:90]
        raise ImageError(f"the OCI layout refers to blob {shown!r}, which is not a sha256 digest")
    return f"blobs/sha256/{match[1]}"


def _read_blob(parts: ArchiveParts, descriptor: dict[str, object]) -> dict[str, object]:
    """Read a JSON blob and verify its digest."""
    return read_json(parts, get_blob_name(descriptor), str(descriptor["digest"]))


def read_json(parts: ArchiveParts, name: str, digest: str | None) -> dict[str, object]:
    with parts.open(name) as file:
        text = file.read(JSON_LIMIT + 1)
    if digest is not None and f"sha256:{hashlib.sha256(text).hexdigest()}" != digest:
        raise ImageError(f"the archive is damaged: {name} does not match its digest")
    data = _load_json(text, name)
    if not isinstance(data, dict):
        raise ImageError(f"{make_printable(name[:90])} in the archive is not a JSON object")
    return data


def _load_json(text: bytes, name: str) -> object:
    shown = make_printable(name[:90])
    if len(text) > JSON_LIMIT:
        raise ImageError(f"{shown} in the archive has more than 4 MiB, the limit for a JSON file")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ImageError(f"{shown} in the archive is not JSON") from e
