"""Test of base images from a real registry, Debian's `docker-registry`: fetched through the door, pinned by digest."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from e2b import Template
from e2b.exceptions import BuildException

from hotdesk.desk.image import image
from tests.conftest import settings_in
from tests.e2e.server.conftest import Served, served
from tests.e2e.server.template_program import build, sandbox

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(600)]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
SETTINGS = "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {data}\nhttp:\n  addr: {address}\n"


@dataclass(frozen=True, slots=True)
class Registry:
    """A running registry, and the digest of its image."""

    address: str
    digest: str


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Run Debian's registry with one image: the files of `base`."""
    folder = tmp_path_factory.mktemp("registry")
    folder.chmod(0o755)
    subprocess.run(["apt-get", "download", "docker-registry"], cwd=folder, check=True, capture_output=True, timeout=120)
    package = next(folder.glob("*.deb"))
    subprocess.run(["dpkg", "-x", package, folder / "x"], check=True, timeout=60)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "settings.yml").write_text(SETTINGS.format(data=folder / "data", address=address))
    argv = [str(folder / "x/usr/bin/docker-registry"), "serve", str(folder / "settings.yml")]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://{address}", timeout=60) as client:
            wait_until_it_answers(client)
            yield Registry(address, push(client, folder))
    finally:
        process.terminate()
        process.wait(30)


def wait_until_it_answers(client: httpx.Client) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            client.get("/v2/").raise_for_status()
            return
        except httpx.TransportError:
            time.sleep(0.05)
    pytest.fail("the registry does not answer")


def push(client: httpx.Client, folder: Path) -> str:
    """Push the files of `base` as an image; return its digest."""
    base = image.find(settings_in(folder).images, "base")
    subprocess.run(["tar", "-C", base.layers[-1], "-cf", folder / "layer.tar", "."], check=True, timeout=120)
    layer = upload(client, (folder / "layer.tar").read_bytes())
    machine = {"aarch64": "arm64", "x86_64": "amd64"}[platform.machine()]
    rootfs = {"type": "layers", "diff_ids": [layer["digest"]]}
    config = upload(client, json.dumps({"architecture": machine, "os": "linux", "rootfs": rootfs}).encode())
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    headers = {"Content-Type": MANIFEST}
    done = client.put("/v2/tools/python/manifests/3", content=json.dumps(manifest), headers=headers).raise_for_status()
    return str(done.headers["Docker-Content-Digest"])


def upload(client: httpx.Client, data: bytes) -> dict[str, object]:
    """Push a blob; return its descriptor."""
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    place = httpx.URL(client.post("/v2/tools/python/blobs/uploads/").raise_for_status().headers["Location"])
    client.put(place.copy_merge_params({"digest": digest}), content=data).raise_for_status()
    return {"digest": digest, "size": len(data)}


@pytest.fixture(scope="module")
def server(home: Path, registry: Registry) -> Iterator[Served]:
    """Yield a server whose operator lists the registry, and lets builds reach nothing else."""
    config = f'[serve]\nbuild_egress = "deny"\nregistries = ["http://{registry.address}"]\n'
    with served(home / f"fetching-{os.getpid()}", config=config) as found:
        yield found


def test_a_base_image_comes_from_a_registry(server: Served, registry: Registry) -> None:
    reference = f"{registry.address}/tools/python"
    lines = build(Template().from_image(f"{reference}:3").run_cmd("echo fetched > x"), "fetched", server.e2b)
    assert any(registry.digest in line for line in lines), lines
    with sandbox("fetched", server.e2b) as made:
        assert made.files.read("x") == "fetched\n"
    pinned = Template().from_image(f"{reference}@{registry.digest}").run_cmd("echo fetched > x")
    assert any("CACHED" in line for line in build(pinned, "pinned", server.e2b))
    with pytest.raises(BuildException, match="404"):
        build(Template().from_image(f"{reference}:none"), "none", server.e2b)
    secret = Template().from_image(f"{reference}:3", username="me", password="secret-of-mine")
    with pytest.raises(BuildException, match="does not use https"):
        build(secret, "secret", server.e2b)
    with pytest.raises(BuildException, match="base_images"):
        build(Template().from_image("127.0.0.1:1/tools/python:3"), "elsewhere", server.e2b)
