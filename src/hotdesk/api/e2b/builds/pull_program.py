"""Run inside a desk: fetches an image from a registry through the door, and writes it as an OCI layout in a tar.

The first line of input is the order. The first line of output is the digest that was found; the next line of input says
whether the image itself is wanted. Every blob is checked against its digest. Standard library only.
"""

# ruff: noqa: B904, UP031 - it runs inside a desk, and its last words are one line
from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, Any

ACCEPT = ", ".join((
    "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
))  # fmt: skip
MAX_JSON = 4 << 20
CHUNK = 1 << 20
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class PullError(Exception):
    """The image cannot be fetched; the message is the reason."""


class Registry:
    """One repository of a registry, behind the door."""

    def __init__(self, address: str, repository: str) -> None:
        self.address = address
        self.repository = repository
        self.token = ""
        proxy = os.environ.get("http_proxy") or os.environ.get("HTTP_PROXY") or "http://127.0.0.1:3128"
        for name in ("no_proxy", "NO_PROXY"):
            os.environ.pop(name, None)
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))

    def get(self, path: str, accept: str = "*/*") -> IO[bytes]:
        """Open a path of the repository; fetch an anonymous token if one is required."""
        place = f"{self.address}/v2/{self.repository}/{path}"
        for attempt in (1, 2):
            request = urllib.request.Request(place, headers={"Accept": accept})  # noqa: S310 - the door decides where to
            if self.token:
                request.add_header("Authorization", "Bearer " + self.token)
            try:
                answer: IO[bytes] = self.opener.open(request, timeout=60)
                return answer
            except urllib.error.HTTPError as e:
                challenge = e.headers.get("WWW-Authenticate", "")
                if attempt == 1 and e.code == 401 and challenge.lower().startswith("bearer "):
                    self.token = self.fetch_token(dict(CHALLENGE.findall(challenge)))
                    continue
                detail = e.read(300).decode("utf-8", "replace")
                raise PullError("%s responded with status %d: %s" % (place, e.code, detail.strip() or e.reason))
            except OSError as e:
                raise PullError(f"{place} cannot be reached: {getattr(e, 'reason', e)}")
        raise PullError(
            f"{place} rejected the access token that was issued for it; if the image is private, pass from_image a "
            "username and a password"
        )

    def fetch_token(self, words: dict[str, str]) -> str:
        query: dict[str, str] = {key: words[key] for key in ("service", "scope") if key in words}
        place = "{}?{}".format(words.get("realm", ""), urllib.parse.urlencode(query))
        try:
            with self.opener.open(place, timeout=60) as answer:
                found = json.loads(answer.read(MAX_JSON))
            return str(found.get("token") or found["access_token"])
        except (OSError, ValueError, KeyError) as e:
            why = "its response has no access token" if isinstance(e, KeyError) else e
            raise PullError(
                f"the registry's token service {place[:200]} gave no access token: {why}; if the image is private, "
                "pass from_image a username and a password"
            )

    def fetch_manifest(self, reference: str) -> tuple[str, bytes, dict[str, Any]]:
        """Return a manifest: its digest, its bytes, and its parsed content."""
        with self.get("manifests/" + reference, ACCEPT) as answer:
            data = answer.read(MAX_JSON + 1)
        if len(data) > MAX_JSON:
            raise PullError("the manifest of the image has more than %d MiB, the limit" % (MAX_JSON >> 20))
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        if DIGEST.fullmatch(reference) and digest != reference:
            raise PullError(
                f"the registry sent a manifest whose content does not match its digest {reference}; start the build "
                "again"
            )
        found = json.loads(data)
        if not isinstance(found, dict):
            raise PullError("the manifest of the image is not a JSON object")
        return digest, data, found


def choose(index: dict[str, Any], machine: str) -> str:
    for each in index["manifests"]:
        platform = each.get("platform") or {}
        if platform.get("architecture") == machine and platform.get("os", "linux") == "linux":
            return str(each["digest"])
    raise PullError(f"the image has no variant for this server's platform, linux/{machine}")


def put(name: str, size: int, chunks: Any) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    out = sys.stdout.buffer
    out.write(info.tobuf())
    for chunk in chunks:
        out.write(chunk)
    out.write(bytes(-size % 512))


def _read_blob(registry: Registry, descriptor: dict[str, Any]) -> Any:
    """Yield the bytes of a blob; one that does not match its digest ends the program before the tar is complete."""
    digest, size = str(descriptor["digest"]), int(descriptor["size"])
    if not DIGEST.fullmatch(digest):
        raise PullError(f"the image has a blob with the digest {digest[:100]!r}; only sha256 digests are supported")
    sha256, rest = hashlib.sha256(), size
    with registry.get("blobs/" + digest) as answer:
        while rest:
            data = answer.read(min(CHUNK, rest))
            if not data:
                raise PullError(f"the registry sent only a part of the image's blob {digest}; start the build again")
            sha256.update(data)
            rest -= len(data)
            yield data
    if "sha256:" + sha256.hexdigest() != digest:
        raise PullError(
            f"the registry sent a blob whose content does not match its digest {digest}; start the build again"
        )


def pull(order: dict[str, Any]) -> None:
    registry = Registry(order["address"], order["repository"])
    digest, data, manifest = registry.fetch_manifest(order["reference"])
    if "manifests" in manifest:
        digest, data, manifest = registry.fetch_manifest(choose(manifest, order["machine"]))
    sys.stdout.buffer.write(json.dumps({"digest": digest}).encode() + b"\n")
    sys.stdout.buffer.flush()
    if sys.stdin.buffer.readline() != b"fetch\n":
        return
    blobs = {str(each["digest"]): each for each in [manifest["config"], *manifest["layers"]]}
    if sum(int(each["size"]) for each in blobs.values()) > order["limit"]:
        raise PullError("the image has more than %d GiB, the limit" % (order["limit"] >> 30))
    put("oci-layout", 30, [b'{"imageLayoutVersion":"1.0.0"}'])
    descriptor = {"mediaType": manifest.get("mediaType", "application/vnd.oci.image.manifest.v1+json"),
                  "digest": digest, "size": len(data)}  # fmt: skip
    index = json.dumps({"schemaVersion": 2, "manifests": [descriptor]}).encode()
    put("index.json", len(index), [index])
    put("blobs/sha256/" + digest[7:], len(data), [data])
    for each in blobs.values():
        put("blobs/sha256/" + str(each["digest"])[7:], int(each["size"]), _read_blob(registry, each))
    sys.stdout.buffer.write(bytes(1024))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        pull(json.loads(sys.stdin.buffer.readline()))
    except (PullError, OSError) as e:
        sys.exit(str(e)[:500])
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        sys.exit(f"malformed response from the registry: {e!r}")
