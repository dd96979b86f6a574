"""Tests of E2B's template builder at a real server: a sample of each kind here, all of them in `make test-long`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2b import AsyncTemplate, Sandbox, Template, wait_for_file
from e2b.exceptions import AuthenticationException, BuildException, TemplateException
from e2b.template.types import BuildInfo

from tests.e2e.conftest import PROGRAM as PROGRAM_OF_SERVER
from tests.e2e.conftest import environment
from tests.e2e.server import template_program
from tests.e2e.server.conftest import Served, served, wait
from tests.e2e.server.template_program import api, build, sandbox
from tests.stall_watch import WATCHED, require_no_stalls

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]
PROGRAM = Path(__file__).with_name("template_program.py")
OLD = "2.45.1"
SAMPLES = (template_program.copies_files, template_program.names_failures)
"""Programs that run in every run; the others take longer."""


@pytest.mark.parametrize("part", SAMPLES, ids=lambda part: part.__name__)
def test_a_template_is_built(server: Served, tmp_path: Path, part: Callable[[dict[str, Any], Path], None]) -> None:
    part(server.e2b, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "part", [each for each in template_program.PARTS if each not in SAMPLES], ids=lambda part: part.__name__
)
def test_every_kind_of_template_is_built(
    server: Served, tmp_path: Path, part: Callable[[dict[str, Any], Path], None]
) -> None:
    if part is template_program.stands_on_templates:
        template_program.runs_steps(server.e2b, tmp_path)
        template_program.copies_files(server.e2b, tmp_path)
    part(server.e2b, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_program_with_an_older_sdk_builds_the_same(server: Served, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "old"], check=True, timeout=120)
    python = str(tmp_path / "old/bin/python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"e2b=={OLD}"], check=True, timeout=200)
    done = subprocess.run(
        [python, "-I", PROGRAM, server.key, server.url], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.endswith(f"all of it, with {OLD}\n")


def test_a_template_is_listed_described_and_deleted(server: Served) -> None:
    build(Template().from_base_image().run_cmd("echo listed > x"), "listed", server.e2b)
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=30) as client:
        found = next(each for each in client.get("/templates").json() if each["aliases"] == ["listed"])
        assert found["buildStatus"] == "ready"
        assert client.get("/templates/listed").json()["builds"][0]["status"] == "ready"
        assert client.delete(f"/templates/{found['templateID']}").status_code == 204
        assert client.get("/templates/listed").status_code == 404
        assert client.delete("/templates/listed").status_code == 404
        assert client.post("/v2/sandboxes", json={"templateID": "listed"}).status_code == 404


def test_a_snapshot_takes_precedence_over_a_template_of_its_name(server: Served) -> None:
    build(Template().from_base_image(), "doubled", server.e2b)
    with Sandbox.create(**server.e2b) as made:
        made.create_snapshot(name="doubled")
    assert Sandbox.delete_snapshot("doubled", **api(server.e2b))
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=30) as client:
        assert client.get("/snapshots", params={"name": "doubled"}).json() == []
        assert client.get("/templates/doubled").status_code == 200
        assert client.delete("/templates/doubled").status_code == 204
        assert client.delete("/templates/doubled").status_code == 404


MALFORMED: dict[str, tuple[str, str, Any, int]] = {
    "no name": ("POST", "/v3/templates", {}, 400),
    "an empty tag": ("POST", "/v3/templates", {"name": "x:"}, 400),
    "another's name": ("POST", "/v3/templates", {"name": "acme/x"}, 403),
    "an image's name": ("POST", "/v3/templates", {"name": "base"}, 409),
    "an odd size": ("POST", "/v3/templates", {"name": "x", "cpuCount": 0}, 400),
    "no template": ("GET", "/templates/absent/tags", None, 404),
    "no build": ("GET", "/templates/absent/builds/00000000-0000-4000-8000-000000000000/status", None, 404),
    "no id": ("GET", "/templates/absent/builds/x/status", None, 400),
    "tags of nothing": ("POST", "/templates/tags", {"target": "absent:x", "tags": ["y"]}, 404),
    "no tags": ("DELETE", "/templates/tags", {"name": "absent", "tags": []}, 400),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), MALFORMED.values(), ids=MALFORMED.keys())
def test_an_invalid_call_is_refused(server: Served, method: str, path: str, body: Any, status: int) -> None:
    answer = httpx.request(method, server.url + path, json=body, headers={"X-API-Key": server.key}, timeout=30)
    assert answer.status_code == status, answer.text
    assert answer.json()["code"] == status


def test_calls_about_templates_that_are_not_there_fail(server: Served) -> None:
    options = api(server.e2b)
    with pytest.raises(TemplateException, match="not found"):
        Template.get_tags("absent", **options)
    with pytest.raises(TemplateException, match="not found"):
        Template.remove_tags("absent", ["x"], **options)
    with pytest.raises(BuildException, match="namespace"):
        Template.build_in_background(Template().from_base_image(), "acme/x", **options)

    async def work() -> None:
        with pytest.raises(TemplateException, match="not found"):
            await AsyncTemplate.get_tags("absent", **options)
        with pytest.raises(TemplateException, match="not found"):
            await AsyncTemplate.remove_tags("absent", ["x"], **options)

    asyncio.run(work())


@pytest.mark.long
def test_templates_are_there_after_a_restart(home: Path) -> None:
    template = Template().from_base_image().run_cmd("echo first > x")
    with served(home / "building", config='[serve]\nbuild_egress = "deny"\n') as first:
        build(template, "stays", first.e2b)
        first.process.terminate()
        first.process.wait(60)
        with (home / "again.log").open("wb") as log:
            source = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
            argv = [PROGRAM_OF_SERVER, "serve", "--port", "0"]
            process = subprocess.Popen(argv, stderr=log, env={**environment(first.settings), **source, **WATCHED})
        try:
            options = {**first.e2b, "api_url": (url := wait(process, home / "again.log")), "sandbox_url": url}
            with sandbox("stays", options) as made:
                assert made.files.read("x") == "first\n"
            assert any("CACHED" in line for line in build(template, "stays", options))
        finally:
            process.terminate()
            process.wait(60)
            require_no_stalls(home / "again.log")


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("ubuntu:latest", lambda template: template.from_ubuntu_image()),
        ("debian:stable", lambda template: template.from_debian_image()),
        ("fedora:44", lambda template: template.from_fedora_image("44")),
        ("alpine:3.24", lambda template: template.from_alpine_image("3.24")),
        ("archlinux:latest", lambda template: template.from_arch_image()),
        ("node:lts", lambda template: template.from_node_image()),
        ("oven/bun:latest", lambda template: template.from_bun_image()),
        ("python:3.9", lambda template: template.from_python_image("3.9")),
        ("gcr.io/a/b:1", lambda template: template.from_gcp_registry("gcr.io/a/b:1", {"type": "service_account"})),
        ("1.dkr.ecr.test/a:1", lambda template: template.from_aws_registry("1.dkr.ecr.test/a:1", "i", "k", "r")),
    ],
)
def test_a_missing_base_image_is_named(server: Served, name: str, begin: Callable[[Template], Any]) -> None:
    with pytest.raises(BuildException, match=f"base image '{re.escape(name)}' is not on this server"):
        build(begin(Template()), "based", server.e2b)


def test_every_call_needs_a_key(server: Served) -> None:
    wrong: dict[str, Any] = {"api_key": "e2b_" + "0" * 40, "api_url": server.url}
    template, info = Template().from_base_image(), BuildInfo("x", "00000000-0000-4000-8000-000000000000", "x", "x")
    with pytest.raises(AuthenticationException):
        Template.build(template, "x", **wrong)
    with pytest.raises(AuthenticationException):
        Template.get_build_status(info, **wrong)
    with pytest.raises(AuthenticationException):
        Template.exists("x", **wrong)
    with pytest.raises(AuthenticationException):
        Template.alias_exists("x", **wrong)
    with pytest.raises(AuthenticationException):
        Template.assign_tags("x:y", ["z"], **wrong)

    async def work() -> None:
        with pytest.raises(AuthenticationException):
            await AsyncTemplate.build(template, "x", **wrong)
        with pytest.raises(AuthenticationException):
            await AsyncTemplate.build_in_background(template, "x", **wrong)
        with pytest.raises(AuthenticationException):
            await AsyncTemplate.get_build_status(info, **wrong)
        with pytest.raises(AuthenticationException):
            await AsyncTemplate.exists("x", **wrong)
        with pytest.raises(AuthenticationException):
            await AsyncTemplate.alias_exists("x", **wrong)
        with pytest.raises(AuthenticationException):
            await AsyncTemplate.assign_tags("x:y", ["z"], **wrong)

    asyncio.run(work())


def test_a_template_is_written_as_json_and_dockerfile() -> None:
    template = Template().skip_cache().from_base_image().run_cmd("true")
    assert '"force": true' in Template.to_json(template)
    assert Template.to_dockerfile(template) == "FROM e2bdev/base\nRUN true\n"
    with pytest.raises(ValueError, match="Cannot convert"):
        Template.to_dockerfile(Template().from_template("x"))


def test_gateways_and_developer_containers_are_not_supported(server: Served) -> None:
    gateway = Template().from_template("mcp-gateway").add_mcp_server("exa")
    with pytest.raises(BuildException, match="'mcp-gateway' does not exist"):
        build(gateway, "gateway", server.e2b)
    with pytest.raises(BuildException, match="only be added to mcp-gateway"):
        Template().from_base_image().add_mcp_server("exa")
    prebuilt = Template().from_template("devcontainer").beta_dev_container_prebuild("/x")
    with pytest.raises(BuildException, match="'devcontainer' does not exist"):
        build(prebuilt.beta_set_dev_container_start("/x"), "developed", server.e2b)


@pytest.mark.long
def test_packages_of_npm_are_installed_and_missing_bun_is_reported(server: Served) -> None:
    build(Template().from_template("office").npm_install("is-odd", g=True), "odd", server.e2b)
    with sandbox("odd", server.e2b) as made:
        assert "is-odd" in made.commands.run("npm ls -g").stdout
    with pytest.raises(BuildException, match="exit status 127"):
        build(Template().from_base_image().bun_install("x"), "bun", server.e2b)
    assert Template.exists("odd", **api(server.e2b))
    assert asyncio.run(AsyncTemplate.exists("odd", **api(server.e2b)))


def test_users_of_a_dockerfile_get_their_numbers_and_keep_their_files(server: Served) -> None:
    lines = "FROM base\nUSER root\nRUN useradd -m app\nUSER app\nRUN id -u > ~/number\nWORKDIR /home/app\n"
    build(Template().from_dockerfile(lines), "with-users", server.e2b)
    with sandbox("with-users", server.e2b) as made:
        assert made.commands.run("whoami; stat -c '%U %u' number; cat number").stdout == "app\napp 1001\n1001\n"


@pytest.mark.long
def test_a_snapshot_of_a_templates_sandbox_has_its_user_folder_and_server(server: Served) -> None:
    template = Template().from_base_image().set_user("root").set_workdir("/srv").run_cmd("touch here")
    start = template.set_start_cmd("echo started > /tmp/started; sleep 1000", wait_for_file("/tmp/started"))
    build(start, "snapped", server.e2b)
    with sandbox("snapped", server.e2b) as made:
        taken = made.create_snapshot()
        assert made.commands.run("whoami; pwd; pgrep -c sleep").stdout == "root\n/srv\n1\n"
    with sandbox(taken.snapshot_id, server.e2b) as again:
        assert again.commands.run("whoami; pwd; ls; pgrep -c sleep").stdout == "root\n/srv\nhere\n1\n"
    build(Template().from_template(taken.snapshot_id).run_cmd('test "$(whoami)" = root'), "on-snapshot", server.e2b)
    build(Template().from_template("snapped").set_ready_cmd("true"), "ready-alone", server.e2b)


@pytest.mark.long
def test_images_that_nothing_needs_are_removed(home: Path) -> None:
    config = '[serve]\nbuild_egress = "deny"\nbuild_cache = "1"\n[serve.base_images]\n"python:3" = "base"\n'
    with served(home / "removing", config=config) as found:
        template = Template().from_python_image("3").run_cmd("echo 1 > one").run_cmd("echo 2 > two")
        build(template, "removed", found.e2b)
        with sandbox("removed", found.e2b) as made:
            assert made.files.read("one") == "1\n"
        records = json.loads((found.settings.lib / "serve/templates.json").read_bytes())
        images = {f"{build['image']}.json" for each in records["templates"] for build in each["builds"]}
        assert images <= set(os.listdir(found.settings.images / "images"))
        number = httpx.get(f"{found.url}/templates/removed", headers={"X-API-Key": found.key}).json()["templateID"]
        httpx.delete(f"{found.url}/templates/{number}", headers={"X-API-Key": found.key}).raise_for_status()
        file = found.settings.lib / "serve/templates.json"
        end = time.monotonic() + 60
        while (records := json.loads(file.read_bytes())["layers"]) and time.monotonic() < end:
            time.sleep(0.1)
        assert records == []
        assert images.isdisjoint(os.listdir(found.settings.images / "images"))


@pytest.mark.long
@pytest.mark.gvisor
def test_templates_are_built_behind_gvisor(home: Path, tmp_path: Path) -> None:
    with served(home / "building-gvisor", config='[serve]\nwall = "gvisor"\n') as found:
        template_program.runs_steps(found.e2b, tmp_path)
        template_program.starts_servers(found.e2b, tmp_path)
        with sandbox("steps", found.e2b) as made:
            assert "gVisor" in made.commands.run("dmesg").stdout
