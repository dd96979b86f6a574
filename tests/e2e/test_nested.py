"""Tests of hotdesk in containers: a privileged one, a restricted one with options, and doctor's remedies."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hotdesk.config import Config
from tests import podman_host
from tests.podman_host import NEEDED, PodmanHost

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(600)]
RUN = "hotdesk run -- sh -c 'echo $((6*7))'"


@pytest.fixture(scope="module")
def podman(settings: Config) -> Iterator[PodmanHost]:
    if shutil.which("podman") is None:
        pytest.fail("podman is not installed: apt-get install --no-install-recommends podman", pytrace=False)
    folder = Path(tempfile.mkdtemp(prefix="nested-", dir="/var/tmp"))
    folder.chmod(0o755)
    host = podman_host.make(folder, settings.images)
    yield host
    host.clear()


def options_of(host: PodmanHost, *without: str) -> list[str]:
    return [each for each in (*NEEDED, host.state, host.cgroups) if each not in without]


def examine(host: PodmanHost, *options: str) -> dict[str, Any]:
    done = host.run("hotdesk setup --no-image >/dev/null 2>&1; hotdesk doctor --json", *options)
    assert done.stdout.startswith("{"), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_privileged_container_opens_desks_after_set_up(podman: PodmanHost) -> None:
    done = podman.run(f"{podman.setup} && {RUN} && {RUN}", "--privileged", podman.state)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2:] == ["42", "42"]
    assert "on a Podman container (privileged)" in done.stdout


def test_a_restricted_container_opens_desks_with_the_options_of_the_guide(podman: PodmanHost) -> None:
    done = podman.run(f"{podman.setup} && {RUN} && {RUN}", *options_of(podman))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2:] == ["42", "42"]
    assert "on a Podman container (restricted)" in done.stdout


def test_doctor_holds_in_a_restricted_container(podman: PodmanHost) -> None:
    """Measures that depend on the machine's load (limits, life, the door's start) are left to doctor's own tests."""
    podman.run(podman.setup, *options_of(podman))
    found = examine(podman, *options_of(podman))
    assert (found["host"]["kind"], found["host"]["missing"], found["unopened"]) == ("podman", [], None)
    themes = ("machine", "user", "calls", "files")
    judged = [each for each in found["measures"] if each["theme"] in themes and each["name"] != "file-table"]
    assert {each["name"]: each["seen"] for each in judged if each["state"] == "failed"} == {}
    assert sum(each["state"] == "held" for each in judged) > 40


def test_every_missing_option_of_a_plain_container_is_named(podman: PodmanHost) -> None:
    done = podman.run(podman.setup)
    assert done.returncode == 125
    assert "Desks cannot open on a Podman container (restricted)" in done.stderr
    command = done.stderr.partition("`podman run ")[2].partition(" …`")[0]
    volumes = {podman.cgroups, "--volume=hotdesk:/var/lib/hotdesk"}
    assert set(shlex.split(command)) == {*NEEDED, *volumes}
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("missing", NEEDED)
def test_each_option_is_needed_and_named_when_it_is_missing(podman: PodmanHost, missing: str) -> None:
    options = options_of(podman, missing)
    done = podman.run(f"{podman.setup} && {RUN}", *options)
    assert done.returncode == 125, f"{missing} is not needed: {done.stdout}"
    assert missing in shlex.split(" ".join(examine(podman, *options)["host"]["options"]))


def test_a_state_directory_in_the_containers_own_layer_is_refused_with_its_remedy(podman: PodmanHost) -> None:
    done = podman.run(podman.setup, *options_of(podman, podman.state))
    assert done.returncode == 125
    assert "/var/lib/hotdesk is on overlay" in done.stderr
    assert "--volume=hotdesk:/var/lib/hotdesk" in done.stderr


def test_read_only_cgroups_are_refused_with_their_remedy(podman: PodmanHost) -> None:
    found = examine(podman, *options_of(podman, podman.cgroups))
    assert found["host"]["missing"] == ["cgroup"]
    assert found["host"]["options"] == [podman.cgroups]


def test_desks_open_under_a_filter_that_refuses_keyrings(podman: PodmanHost) -> None:
    profile = json.loads(Path("/usr/share/containers/seccomp.json").read_text())
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in ("keyctl", "add_key", "request_key")]
    profile["defaultErrnoRet"] = 1
    file = podman.folder / "docker.json"
    file.write_text(json.dumps(profile))
    done = podman.run(f"{podman.setup} && {RUN}", *options_of(podman), f"--security-opt=seccomp={file}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_containers_memory_limit_is_a_floor_for_its_desks(podman: PodmanHost) -> None:
    podman.run(podman.setup, "--privileged", podman.state)
    script = "hotdesk setup --no-image >/dev/null && hotdesk run -- true"
    done = podman.run(script, "--privileged", podman.state, "--memory=200m", "--memory-swap=200m")
    assert done.returncode == 125
    assert "burn desks, or lower memory_floor" in done.stderr
