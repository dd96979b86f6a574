"""Attacks by people who build templates: on uploads, archives, other tenants, base images, and the server's memory."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from hotdesk.api.e2b.builds.build_log import BuildLog
from hotdesk.api.e2b.builds.unpack_program import FOLDER, RefusedArchive, Unpacking
from hotdesk.api.keys import ApiKeys
from tests.e2e.server.conftest import Served, served
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(180)]
PATIENCE = 90.0
DIGEST = "ab" * 32


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with served(home / "build-attacked", config='[serve]\negress = "deny"\n') as found:
        yield found


@pytest.fixture
def api(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=30) as client:
        yield client


@pytest.fixture
def other(server: Served) -> Iterator[httpx.Client]:
    key = ApiKeys(server.settings.lib / "serve").make(f"other-{time.monotonic_ns()}", tenant="other")
    with httpx.Client(base_url=server.url, headers={"X-API-Key": key}, timeout=30) as client:
        yield client


def begin(api: httpx.Client, name: str) -> tuple[str, str]:
    """Request a build; return the ids of template and build."""
    answer = api.post("/v3/templates", json={"name": name}).raise_for_status().json()
    return str(answer["templateID"]), str(answer["buildID"])


def link(api: httpx.Client, template: str, digest: str = DIGEST) -> str:
    return str(api.get(f"/templates/{template}/files/{digest}").raise_for_status().json()["url"])


def build(api: httpx.Client, name: str, steps: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Build a template; return the outcome."""
    template, number = begin(api, name)
    order = {"fromImage": "e2bdev/base", **more, "steps": steps}
    if more.get("fromTemplate"):
        del order["fromImage"]
    api.post(f"/v2/templates/{template}/builds/{number}", json=order).raise_for_status()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = api.get(f"/templates/{template}/builds/{number}/status").raise_for_status().json()
        if found["status"] in ("ready", "error"):
            return dict(found)
        time.sleep(0.05)
    pytest.fail("the build does not end")


def tar(*entries: tuple[str, bytes, bytes, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as file:
        for name, kind, data, leads in entries:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname, info.mode = kind, len(data), leads, 0o644
            file.addfile(info, io.BytesIO(data))
    return made.getvalue()


# -- uploads ----------------------------------------------------------------------------------------------------------


@falls_without("an upload link works once",
               Removal("builds/uploads.py", "link = self.links.pop(word, None)", "link = self.links.get(word)"),
               cases="used")  # fmt: skip
@falls_without("an upload link is for one digest",
               Removal("builds/uploads.py", "or link.digest != digest or", "or"), cases="another digest")  # fmt: skip
@no_guard("there is nothing to look up", cases="none | a guess")
@pytest.mark.parametrize("case", ["none", "a guess", "used", "another digest"])
def test_an_archive_is_refused_without_an_upload_link_for_it(api: httpx.Client, case: str) -> None:
    template, _ = begin(api, "linked")
    good = link(api, template)
    place = {
        "none": good.partition("?")[0],
        "a guess": good.partition("=")[0] + "=guess",
        "used": good,
        "another digest": good.replace(DIGEST, "cd" * 32),
    }[case]
    if case == "used":
        assert httpx.put(good, content=b"first").status_code == 200
    assert httpx.put(place, content=b"mine").status_code == 401


@falls_without("an archive's length is read before its bytes",
               Removal("builds/uploads.py", "if length.isdecimal() and int(length[:20]) > MAX_ARCHIVE_BYTES:",
                       "if False:"))  # fmt: skip
def test_an_archive_that_is_too_large_is_refused_before_it_is_sent(api: httpx.Client) -> None:
    template, _ = begin(api, "large")
    address = httpx.URL(link(api, template))
    lines = [
        f"PUT {address.raw_path.decode()} HTTP/1.1",
        f"Host: {address.netloc.decode()}",
        f"Content-Length: {1 << 50}",
    ]
    with socket.create_connection((address.host, address.port), 10) as sock:
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        sock.settimeout(10)
        assert b" 413 " in sock.recv(4096).partition(b"\r\n")[0]


@no_guard("a digest is one segment of a path, and its shape is checked before anything is opened")
@pytest.mark.parametrize("digest", ["%2e%2e%2fkeys.json", "AB" * 32, "ab" * 31, "snapshots.json"])
def test_a_digest_is_not_used_as_a_path(api: httpx.Client, digest: str) -> None:
    template, _ = begin(api, "paths")
    assert api.get(f"/templates/{template}/files/{digest}").status_code >= 400


# -- archives ---------------------------------------------------------------------------------------------------------

ARCHIVES = {
    "a step up": tar(("../../../etc/planted", tarfile.REGTYPE, b"x", "")),
    "the root": tar(("/etc/planted", tarfile.REGTYPE, b"x", "")),
    "through a link": tar(("a", tarfile.SYMTYPE, b"", "/etc"), ("a/planted", tarfile.REGTYPE, b"x", "")),
    "a hard link out": tar(("a", tarfile.LNKTYPE, b"", "../../../../etc/shadow")),
}


@falls_without("names of an archive stay below it",
               Removal("unpack_program.py", 'if name.startswith("/") or ".." in parts or "\\0" in name:', "if False:"),
               cases="a step up | the root | a hard link out")  # fmt: skip
@falls_without("no link of an archive is followed",
               Removal("unpack_program.py", "FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
                       "FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC"), cases="through a link")  # fmt: skip
@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_writes_nothing_outside_its_folder(api: httpx.Client, case: str) -> None:
    digest = hashlib.sha256(case.encode()).hexdigest()
    template, _ = begin(api, "archived")
    httpx.put(link(api, template, digest), content=ARCHIVES[case]).raise_for_status()
    steps = [
        {"type": "COPY", "args": [".", "/copied", "", ""], "filesHash": digest, "force": True},
        {"type": "RUN", "args": ["test ! -e /etc/planted"], "force": True},
    ]
    done = build(api, "archived", steps)
    assert (done["status"], done["reason"]["step"]) == ("error", "1"), done


@falls_without("bytes of an archive are counted",
               Removal("unpack_program.py", "if self.size < 0:", "if False:"),
               cases="bytes")  # fmt: skip
@falls_without("entries of an archive are counted",
               Removal("unpack_program.py", "if self.entries < 0:", "if False:"),
               cases="entries")  # fmt: skip
@pytest.mark.parametrize("case", ["bytes", "entries"])
def test_a_bomb_is_refused_before_it_is_written(tmp_path: Path, case: str) -> None:
    many = [(f"f{number}", tarfile.REGTYPE, b"", "") for number in range(2000)]
    bomb = tar(*many) if case == "entries" else tar(("zeros", tarfile.REGTYPE, bytes(64 << 20), ""))
    top = os.open(tmp_path, FOLDER)
    try:
        with pytest.raises(RefusedArchive):
            Unpacking(top, 1000, 8 << 20).run(io.BytesIO(bomb))
    finally:
        os.close(top)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 8 << 20
    assert len(list(tmp_path.iterdir())) <= 1000


# -- others -----------------------------------------------------------------------------------------------------------


@falls_without("templates are found among the caller's own",
               Removal("builds/service.py", "store = self.stores.get(tenant.name)",
                       "store = next(iter(self.stores.values()), None)"))  # fmt: skip
def test_another_tenants_template_is_reported_as_unknown(api: httpx.Client, other: httpx.Client) -> None:
    template, number = begin(api, "theirs")
    calls = [
        ("GET", "/templates/{}", None),
        ("GET", "/templates/{}/tags", None),
        ("GET", "/templates/{}/files/" + DIGEST, None),
        ("GET", "/templates/{}/builds/" + number + "/status", None),
        ("POST", "/v2/templates/{}/builds/" + number, {"fromImage": "e2bdev/base"}),
        ("GET", "/templates/aliases/{}", None),
        ("DELETE", "/templates/{}", None),
    ]
    for name in (template, "theirs"):
        for method, path, body in calls:
            answers = [other.request(method, path.format(each), json=body) for each in (name, "never-was")]
            assert {each.status_code for each in answers} == {404}, (method, path, answers[0].text)
    assert other.get("/templates").json() == []
    assert api.get(f"/templates/{template}").status_code == 200


@falls_without("a base image is no tenant's",
               Removal("builds/names.py", "if NAME_SHAPE.fullmatch(each) and not each.startswith(PREFIX)]",
                       "if NAME_SHAPE.fullmatch(each)]"))  # fmt: skip
def test_another_tenants_image_cannot_be_a_base(server: Served, api: httpx.Client, other: httpx.Client) -> None:
    assert build(api, "secret", [{"type": "RUN", "args": ["echo theirs > /tmp/theirs"]}])["status"] == "ready"
    records = json.loads((server.settings.lib / "serve/templates.json").read_bytes())
    image = records["layers"][0]["image"]
    for base in ({"fromImage": image}, {"fromTemplate": image}, {"fromTemplate": "default/secret"}):
        done = build(other, "stolen", [{"type": "RUN", "args": ["cat /tmp/theirs"]}], **base)
        assert (done["status"], done["reason"]["step"]) == ("error", "base"), done


class Recorder(BaseHTTPRequestHandler):
    """A program on this machine that nobody may reach unless it is listed."""

    heard: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self.heard.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def recorder() -> Iterator[int]:
    """Record requests to a port of loopback; return the port."""
    Recorder.heard.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield listener.server_address[1]
        listener.shutdown()


@falls_without(
    "steps of builds have the rules of builds",
    Removal(
        "builds/runner.py",
        "        return await find_scope(replace(serving, egress=serving.egress_of_builds))\n",
        "        return await find_scope(serving)\n",
    ),
    cases="deny",
)
@no_guard("it must pass: that the listed host can be reached", cases="open")
@pytest.mark.parametrize("rules", ["open", "deny"])
def test_a_build_step_reaches_only_hosts_the_operator_allowed(home: Path, recorder: int, rules: str) -> None:
    config = f'[serve]\negress = "open"\nbuild_egress = "{rules}"\n'
    config += f'[door.names]\n"listed.example.com" = "127.0.0.1:{recorder}"\n'
    tries = [
        f"curl -sf --noproxy '*' --max-time 5 http://127.0.0.1:{recorder}/direct",
        f"curl -sf --max-time 5 http://127.0.0.1:{recorder}/by-address",
        "curl -sf --max-time 5 http://169.254.169.254/",
    ]
    listed = "curl -sf --max-time 20 http://listed.example.com/listed"
    refused = " || ".join(tries if rules == "open" else [*tries, listed, "curl -sf --max-time 5 https://example.com/"])
    command = f"curl --version && ! {{ {refused}; }}" + (f" && {listed}" if rules == "open" else "")
    with (
        served(home / f"build-reaching-{rules}", config=config) as found,
        httpx.Client(base_url=found.url, headers={"X-API-Key": found.key}, timeout=30) as client,
    ):
        done = build(client, "reaching", [{"type": "RUN", "args": [command, "root"]}])
    assert done["status"] == "ready", done.get("reason")
    assert Recorder.heard == (["/listed"] if rules == "open" else [])


@falls_without("a log has an end",
               Removal("builds/build_log.py", "        if self.full:\n            return\n", ""))  # fmt: skip
def test_a_build_that_prints_forever_does_not_fill_memory() -> None:
    log = BuildLog()
    for _ in range(60_000):
        log.write("y" * 400)
    assert sum(len(each.message) for each in log.entries) < 9 << 20
    assert len(log.entries) < 21_000


@no_guard("a desk that does not come up is a desk that is not handed over")
def test_a_template_that_breaks_its_own_guest_is_never_used(api: httpx.Client) -> None:
    broken = [{"type": "RUN", "args": ["rm -f /usr/bin/python3*", "root"]}]
    assert build(api, "broken", broken)["status"] == "error"
    assert api.post("/v2/sandboxes", json={"templateID": "broken"}).status_code == 404
    assert build(api, "whole", [{"type": "RUN", "args": ["true"]}])["status"] == "ready"


# -- registries -------------------------------------------------------------------------------------------------------


class LyingRegistry(BaseHTTPRequestHandler):
    """A registry that answers whatever a test wants."""

    answers: ClassVar[dict[str, tuple[int, dict[str, str], bytes]]] = {}
    requests: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self.requests.append(self.path)
        status, headers, data = self.answers.get(self.path.rpartition("/")[2], (404, {}, b"{}"))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module")
def lying(home: Path) -> Iterator[tuple[str, httpx.Client]]:
    registry = ThreadingHTTPServer(("127.0.0.1", 0), LyingRegistry)
    threading.Thread(target=registry.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{registry.server_address[1]}"
    config = f'[serve]\negress = "deny"\nregistries = ["http://{address}"]\n'
    with (
        served(home / "registry-attacked", config=config) as found,
        httpx.Client(base_url=found.url, headers={"X-API-Key": found.key}, timeout=30) as client,
    ):
        yield address, client
    registry.shutdown()
    registry.server_close()


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


CONFIG = b'{"os": "linux"}'
LAYER = b"no tar at all"
TRUE = {
    "config": {"digest": digest_of(CONFIG), "size": len(CONFIG)},
    "layers": [{"digest": digest_of(LAYER), "size": 13}],
}
PINNED = "sha256:" + "77" * 32
LIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "another manifest": (f"@{PINNED}", TRUE, "does not match"),
    "another blob": (":1", {**TRUE, "layers": [{"digest": PINNED, "size": len(LAYER)}]}, "does not match its digest"),
    "an endless blob": (":1", {**TRUE, "layers": [{"digest": digest_of(LAYER), "size": 1 << 50}]}, "has more than"),
    "a path for a digest": (":1", {**TRUE, "layers": [{"digest": "sha256:../../x", "size": 3}]}, "only sha256 digests"),
    "no image": (":1", TRUE, "cannot be imported"),
    "a list": (":1", {"manifests": [{"digest": 7}]}, "malformed response|no variant"),
}


@pytest.mark.long
@falls_without("a pinned manifest has its digest",
               Removal("pull_program.py", "if DIGEST.fullmatch(reference) and digest != reference:", "if False:"),
               cases="another manifest")  # fmt: skip
@falls_without("the size of an image is known before it is fetched",
               Removal("pull_program.py", '> order["limit"]:', "> 1 << 60:"), cases="an endless blob")  # fmt: skip
@no_guard("the importer of foreign images checks every digest and every shape again",
          cases="another blob | a path for a digest | no image | a list")  # fmt: skip
@pytest.mark.parametrize("case", LIES)
def test_a_registry_that_sends_wrong_data_yields_no_image(lying: tuple[str, httpx.Client], case: str) -> None:
    address, client = lying
    reference, manifest, why = LIES[case]
    data = json.dumps(manifest).encode()
    blobs = {digest_of(CONFIG): CONFIG, digest_of(LAYER): LAYER, PINNED: LAYER}
    LyingRegistry.answers = {name: (200, {}, content) for name, content in blobs.items()}
    LyingRegistry.answers |= {"1": (200, {}, data)} if reference == ":1" else {PINNED: (200, {}, data)}
    done = build(client, "lied-to", [], fromImage=f"{address}/tools/python{reference}")
    assert (done["status"], done["reason"]["step"]) == ("error", "base")
    assert re.search(why, done["reason"]["message"]), done["reason"]["message"]


@pytest.mark.long
@falls_without(
    "a desk that fetches an image reaches its registry alone",
    Removal("policy/policy.py", "        if view.end not in self.ends:\n", "        if not view.end:\n"),
    cases="another port",
)
@no_guard("another guard refuses it too: addresses of this machine, or schemes that are not HTTP's",
          cases="an address of the cloud | a file")  # fmt: skip
@pytest.mark.parametrize(
    "place",
    ["http://127.0.0.1:{port}/", "http://169.254.169.254/latest", "file:///etc/passwd"],
    ids=["another port", "an address of the cloud", "a file"],
)
def test_a_registry_cannot_redirect_to_internal_addresses(
    lying: tuple[str, httpx.Client], recorder: int, place: str
) -> None:
    address, client = lying
    LyingRegistry.requests.clear()
    LyingRegistry.answers = {"1": (302, {"Location": place.format(port=recorder)}, b"")}
    done = build(client, "led-away", [], fromImage=f"{address}/tools/python:1")
    assert LyingRegistry.requests, "the redirect was not sent"
    assert Recorder.heard == []
    assert (done["status"], done["reason"]["step"]) == ("error", "base"), done
    assert "root:" not in done["reason"]["message"]
