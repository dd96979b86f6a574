"""Names of templates, their tags, and base images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hotdesk.api.e2b.control.snapshots import PREFIX
from hotdesk.api.e2b.responses import E2bError
from hotdesk.desk.image.image import NAME_SHAPE
from hotdesk.errors import make_printable

DEFAULT_TAG = "default"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_TAGS = 32
_REGISTRIES = ("docker.io/", "index.docker.io/", "registry-1.docker.io/")
_E2B_IMAGES = {
    "e2bdev/base": "base",
    "e2bdev/code-interpreter": "code-interpreter-v1",
    "e2bdev/desktop": "e2b-desktop",
}
"""E2B's own images, and their equivalents here."""
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")


def split_reference(tenant: str, reference: str) -> tuple[str, str | None]:
    """Return the name and the tag of `[TENANT/]NAME[:TAG]`; another tenant's is refused."""
    team, slash, rest = reference.rpartition("/")
    if slash and team != tenant:
        raise E2bError(
            403, f"template '{make_printable(reference[:64])}' is not in your namespace '{tenant}'; use {tenant}/NAME"
        )
    name, colon, tag = rest.partition(":")
    name = name.strip().lower()
    if not _NAME.fullmatch(name):
        raise E2bError(
            400,
            "A template name must have 1 to 128 characters: a-z, 0-9, '.', '_' and '-', with a letter or digit first.",
        )
    if name.startswith(PREFIX):
        raise E2bError(400, f"A template name must not start with '{PREFIX}'. Choose another name.")
    return name, check_tag(tag) if colon else None


def check_tag(tag: str) -> str:
    if not _TAG.fullmatch(tag):
        raise E2bError(
            400, "A tag must have 1 to 64 characters: letters, digits, '.', '_' and '-', with a letter or digit first."
        )
    return tag


def merge_tags(tag: str | None, more: Sequence[str]) -> list[str]:
    """Return the tags of a build: the one in its name and the requested ones; without any, the default tag."""
    tags = list(dict.fromkeys([*([tag] if tag else []), *map(check_tag, more)]))
    if len(tags) > MAX_TAGS:
        raise E2bError(400, f"This build has {len(tags)} tags. A build can have at most {MAX_TAGS}.")
    return tags or [DEFAULT_TAG]


def list_local_images(reference: str, configured: Mapping[str, str]) -> list[str]:
    """Return the names that a base image may have on this machine, the likeliest first.

    `python:3.12` is the image `python-3.12`; without a tag, or with `latest`, it is `python`.
    """
    if not _REFERENCE.fullmatch(reference):
        return []
    short = reference
    for prefix in (*_REGISTRIES, "library/"):
        short = short.removeprefix(prefix)
    if "@" in short:
        return [configured[each] for each in (reference, short) if each in configured]
    repository, _, tag = short.partition(":")
    own = configured.get(reference) or configured.get(short) or (configured.get(repository) if not tag else None)
    if own:
        return [own]
    if tag in ("", "latest") and repository in _E2B_IMAGES:
        return [_E2B_IMAGES[repository]]
    flat = repository.replace("/", "-").lower()
    names = [f"{flat}-{tag.lower()}"] if tag not in ("", "latest") else [flat, f"{flat}-latest"]
    return [each for each in names if NAME_SHAPE.fullmatch(each) and not each.startswith(PREFIX)]


def import_advice(reference: str) -> str:
    shown = make_printable(reference[:100])
    names = list_local_images(reference, {})
    if not names:
        return (
            f"base image '{shown}' is not on this server; the server's operator can map this name to an installed "
            "image in [serve] base_images"
        )
    return (
        f"base image '{shown}' is not on this server. The server's operator can import it: run "
        f"`docker save {shown} -o image.tar` where Docker has the image, then "
        f"`hotdesk image import image.tar --name {names[0]}` on the server; or map this name to an installed image "
        "in [serve] base_images"
    )
