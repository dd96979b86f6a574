"""Tests of other projects' clients with only a desk's settings: they use and trust the door, and report refusals."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brief import Scope, parse_rule
from hotdesk.config import Config
from hotdesk.desk import door_files
from hotdesk.desk.seam import Desk, Done
from hotdesk.host import Host
from tests.e2e.installing import SPEC, apt_install, done, install_node, python_index, rules
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(200)]
URLLIB = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())"
REQUESTS = "import sys, requests as r; a = r.get(sys.argv[1]); print(a.text); a.raise_for_status()"
HTTPX = "import sys, httpx as r; a = r.get(sys.argv[1]); print(a.text); a.raise_for_status()"
NODE = """
require('https').get(process.argv[1], (a) => {
  a.pipe(process.stdout)
  process.exitCode = a.statusCode === 200 ? 0 : 1
})
"""
FETCH = """
fetch(process.argv[1]).then(async (a) => { console.log(await a.text()); process.exitCode = a.ok ? 0 : 1 })
"""
GO = """
package main

import ("fmt"; "io"; "net/http"; "os")

func main() {
    answer, err := http.Get(os.Args[1])
    if err != nil { fmt.Println(err); os.Exit(1) }
    io.Copy(os.Stdout, answer.Body)
    if answer.StatusCode != 200 { os.Exit(1) }
}
"""
JAVA = """
import java.net.URI;
import java.net.http.*;

public class Fetch {
    public static void main(String[] args) throws Exception {
        var call = HttpRequest.newBuilder(URI.create(args[0])).build();
        var answer = HttpClient.newHttpClient().send(call, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.statusCode() + " " + answer.body());
        System.out.println(new String(URI.create(args[0]).toURL().openStream().readAllBytes()));
    }
}
"""
PAGE = b"<html><body><p>hello from the other side</p></body></html>"

PYTHON = {
    "urllib": ["python3", "-c", URLLIB, "URL/data/page"],
    "requests": ["python3", "-c", REQUESTS, "URL/data/page"],
    "httpx": ["python3", "-c", HTTPX, "URL/data/page"],
    "pip": ["pip", "install", "--retries=1", "--no-deps", "--force-reinstall", "--index-url=URL/data/simple", "tiny"],
}
PLAIN = {
    "curl": ["curl", "-sSf", "URL/data/page"],
    "git": ["git", "clone", "URL/data/tiny.git", "clone"],
}
JAVASCRIPT = {
    "node": ["node", "-e", NODE, "URL/data/page"],
    "fetch": ["node", "-e", FETCH, "URL/data/page"],
    "npm": ["npm", "install", "--prefix=npm-there", "--fetch-retries=0", "--registry=URL/data/npm", "tiny"],
}
CLIENTS = {**PLAIN, **PYTHON, **JAVASCRIPT}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    folder = tmp_path_factory.mktemp("there")
    folder.chmod(0o755)
    with upstream(folder, "there.test") as server:
        found = {"/data/page": PAGE, **repository(folder), **python_index("/data"), **npm_registry()}
        server.answers |= {path: (200, {"Content-Type": content_type(path)}, data) for path, data in found.items()}
        yield server


def content_type(path: str) -> str:
    if path.endswith("/tiny"):
        return "application/json"
    return "text/html" if path.endswith(("/", "page")) else "application/octet-stream"


def repository(folder: Path) -> dict[str, bytes]:
    work = folder / "tiny.git"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x.test", "-c", "commit.gpgsign=false"]
    for act in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first words"], ["update-server-info"]):
        where = ["-C", str(work)] if work.exists() else []
        subprocess.run([*git, *where, *act, *([str(work)] if act[0] == "init" else [])], check=True, timeout=30)
    inside = work / ".git"
    files = [file for file in inside.rglob("*") if file.is_file()]
    return {f"/data/tiny.git/{file.relative_to(inside)}": file.read_bytes() for file in files}


def npm_registry() -> dict[str, bytes]:
    data, package = io.BytesIO(), {"name": "tiny", "version": "1.0.0"}
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        text = json.dumps(package).encode()
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    digest = hashlib.sha1(data.getvalue(), usedforsecurity=False).hexdigest()
    dist = {"tarball": "https://there.test/data/npm/tiny.tgz", "shasum": digest}
    told = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**package, "dist": dist}}}
    return {"/data/npm/tiny": json.dumps(told).encode(), "/data/npm/tiny.tgz": data.getvalue()}


@pytest.fixture(scope="module")
async def desk(settings: Config, there: Upstream) -> AsyncIterator[Desk]:
    scope = Scope((*rules(), parse_rule("there.test/data/**")), names={"there.test": there.address})
    async with (
        Host(replace(settings, ca=str(there.ca)), control=False) as host,
        host.open_desk(replace(SPEC, disk=16 << 30), scope) as opened,
    ):
        await done(opened, "sudo true && curl -sS http://door.local/")  # what starts on first use stays for all tests
        yield opened


@pytest.fixture(scope="module")
async def equipped(desk: Desk) -> Desk:
    await done(desk, "pip install --quiet requests httpx")
    await install_node(desk)
    return desk


async def ask(desk: Desk, argv: list[str], url: str, env: dict[str, str] | None = None) -> Done:
    """Run a client without caches and with nothing but one of our URLs."""
    for left in ("clone", "npm-there", ".npm"):
        await desk.remove(left)
    return await desk.run([word.replace("URL", url) for word in argv], env=env, timeout=60)


async def ask_each(desk: Desk, url: str, env: dict[str, str] | None = None) -> dict[str, Done]:
    return {name: await ask(desk, argv, url, env) for name, argv in CLIENTS.items()}


def words(told: Done) -> str:
    return told.text + told.stderr.decode()


async def test_every_client_uses_and_trusts_the_door(equipped: Desk, there: Upstream) -> None:
    for name, argv in CLIENTS.items():
        there.seen.clear()
        told = await ask(equipped, argv, "https://there.test")
        assert told.ok, f"{name}: {words(told)}"
        assert [seen.path for seen in there.seen if seen.path.startswith("/data/")], name


@pytest.mark.long
async def test_every_client_reports_that_the_door_refuses_a_host(equipped: Desk) -> None:
    for name, told in (await ask_each(equipped, "https://elsewhere.test")).items():
        assert not told.ok, name
        assert "403" in words(told), f"{name}: {words(told)}"


@pytest.mark.long
async def test_every_client_reports_that_the_door_refuses_a_path(equipped: Desk, there: Upstream) -> None:
    there.seen.clear()
    for name, told in (await ask_each(equipped, "https://there.test/closed")).items():
        assert not told.ok, name
        said = ("403", '"refused"', "No matching distribution found")  # pip prints only the last for any error page
        assert any(word in words(told) for word in said), f"{name}: {words(told)}"
    assert there.seen == []


@pytest.mark.long
async def test_a_client_without_our_certificate_trusts_no_server(equipped: Desk, there: Upstream) -> None:
    there.seen.clear()
    given = [name for name, value in door_files.build_environment().items() if value.endswith(".crt")]
    nothing = dict.fromkeys([*given, "SSL_CERT_DIR", "GIT_SSL_CAPATH"], "/dev/null")
    for name, told in (await ask_each(equipped, "https://there.test", nothing)).items():
        assert not told.ok, name
    assert there.seen == []


async def test_npm_installs_from_this_machines_own_registry(equipped: Desk) -> None:
    await done(equipped, "mkdir own && cd own && npm install is-odd")
    assert await done(equipped, "cd own && node -p 'require(\"is-odd\")(3)'") == "true\n"


async def test_a_server_that_the_door_does_not_trust_is_named(settings: Config, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with upstream(tmp_path, "forged.test") as forged:
        scope = Scope((parse_rule("forged.test"),), names={"forged.test": forged.address})
        async with Host(settings, control=False) as host, host.open_desk(scope=scope) as desk:
            told = await desk.run(["curl", "-sS", "https://forged.test/"], timeout=30)
        assert "the certificate of forged.test is not trusted" in told.text
        assert forged.seen == []


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_chromium_uses_and_trusts_the_door(desk: Desk) -> None:
    await apt_install(desk, "chromium", timeout=400)
    chromium = ["chromium", "--headless", "--no-sandbox", "--dump-dom", "URL/data/page"]
    told = await ask(desk, chromium, "https://there.test")
    assert "hello from the other side" in told.text, words(told)
    assert '"refused": "GET https://there.test/closed' in (await ask(desk, chromium, "https://there.test/closed")).text
    assert "ERR_TUNNEL_CONNECTION_FAILED" in words(await ask(desk, chromium, "https://elsewhere.test"))


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_go_uses_and_trusts_the_door(desk: Desk) -> None:
    await apt_install(desk, "golang-go", timeout=400)
    await desk.write("fetch.go", GO.encode())
    await done(desk, "go build -o fetch fetch.go", 300)
    told = await ask(desk, ["./fetch", "URL/data/page"], "https://there.test")
    assert "hello from the other side" in told.text, words(told)
    for url in ("https://there.test/closed", "https://elsewhere.test"):
        refused = await ask(desk, ["./fetch", "URL/data/page"], url)
        assert not refused.ok
        assert "hotdesk refuses" in words(refused) or '"refused"' in words(refused), words(refused)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_java_uses_and_trusts_the_door_by_its_variable(desk: Desk) -> None:
    await apt_install(desk, "default-jdk-headless", timeout=400)
    await desk.write("Fetch.java", JAVA.encode())
    java = ["java", "Fetch.java", "URL/data/page"]
    told = await ask(desk, java, "https://there.test", door_files.build_java_environment())
    assert told.text.count("hello from the other side") == 2, words(told)
    for url in ("https://there.test/closed", "https://elsewhere.test"):
        refused = await ask(desk, java, url, door_files.build_java_environment())
        assert not refused.ok
        assert "403" in words(refused), words(refused)
