"""Tests of set-up's decisions: what is already there, who may run it, and what is printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.cli.machine import setup
from hotdesk.cli.machine.setup_record import SetupStep, run_apt
from hotdesk.config import Config
from hotdesk.desk.image import recipe, store
from hotdesk.desk.image.image import Image
from hotdesk.desk.image.requirements import HostMachine
from hotdesk.errors import HostError

DEBIAN = HostMachine("debian", "12", "bookworm", "Debian 12", os.uname().machine)
UBUNTU = HostMachine("ubuntu", "24.04", "noble", "Ubuntu 24.04", os.uname().machine)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Config:
    return Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")


def publish(settings: Config, digest: str, name: str = "base", recipe_digest: str = "") -> Image:
    layer = settings.images / "layers" / digest
    here = os.uname().machine
    picture = Image(name, digest, (layer,), "/usr/bin/python3", here, time.time(), 0, "a test", recipe_digest)
    with store.writing(settings.images, print) as (work, _):
        (work / "tree").mkdir()
        return store.publish(settings.images, picture, work / "tree")


def test_an_image_that_matches_its_recipe_is_found_without_apt(elsewhere: Config) -> None:
    base = recipe.load("base")
    digest = recipe.compute_digest(base, "", os.uname().machine, base.suite or "")
    made = publish(elsewhere, digest)
    assert setup.find_ready_image(elsewhere, DEBIAN, base) == made
    assert setup.find_ready_image(elsewhere, UBUNTU, base) is None
    assert setup.find_ready_image(elsewhere, DEBIAN, replace(base, run=("true",))) is None


def test_a_missing_image_is_not_ready(elsewhere: Config) -> None:
    assert setup.find_ready_image(elsewhere, DEBIAN, recipe.load("base")) is None


def test_an_image_on_a_parent_is_ready_only_with_that_parent(elsewhere: Config) -> None:
    wanted = recipe.parse('from = "base"\nrun = ["true"]', "mine")
    assert setup.find_ready_image(elsewhere, DEBIAN, wanted) is None
    parent = publish(elsewhere, "a" * 64)
    made = publish(elsewhere, recipe.compute_digest(wanted, parent.digest, os.uname().machine, ""), "mine")
    assert setup.find_ready_image(elsewhere, DEBIAN, wanted) == made
    publish(elsewhere, "b" * 64)
    assert setup.find_ready_image(elsewhere, DEBIAN, wanted) is None


def test_folders_are_made_once(elsewhere: Config, tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents):
        if not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o001)
    assert setup.make_folders(elsewhere).changed
    assert not setup.make_folders(elsewhere).changed
    assert elsewhere.lib.stat().st_mode & 0o077 == 0


def test_a_step_is_one_line() -> None:
    assert str(SetupStep("account", "hotdesk there", False)) == "account: hotdesk there"


@pytest.mark.slow
def test_a_failing_apt_says_why_and_what_to_do() -> None:
    with pytest.raises(HostError, match="hotdesk-no-such-package") as caught:
        run_apt("install", "--yes", "--simulate", "hotdesk-no-such-package")
    assert "hotdesk setup" in str(caught.value)


@pytest.mark.slow
def test_without_root_and_sudo_it_says_what_is_missing(tmp_path: Path) -> None:
    script = (
        "import os, sys; os.environ['PATH'] = sys.argv[1]; "
        "from hotdesk.cli.machine import setup_root; setup_root.become_root(['packages crun'])"
    )
    argv = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert "sudo is not installed; run `hotdesk setup` as root; missing here: packages crun" in done.stderr


@pytest.mark.slow
def test_with_sudo_it_runs_itself_again_with_its_settings(tmp_path: Path) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nfor last; do :; done\ncat "$last"\nexit 7\n')
    sudo.chmod(0o755)
    script = "from hotdesk.cli.machine import setup_root; setup_root.become_root([])"
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOTDESK_HOME": "/some where", "SECRET_KEY": "x"}
    env.pop("PYTHONPATH", None)
    env |= {"HOTDESK_CHAT_KEY": "canary", "HTTPS_PROXY": "http://me:canary@proxy.example"}
    argv = [sys.executable, "-c", script, "setup", "--no-image"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=env)
    *told, variables = done.stdout.splitlines()
    assert done.returncode == 7
    assert told[:-1] == ["--", sys.executable, "-B", "-c", "setup", "--no-image", "--variables-from"]
    passed = json.loads(variables)
    assert (passed["HOTDESK_HOME"], passed["HTTPS_PROXY"]) == ("/some where", "http://me:canary@proxy.example")
    assert not {"SECRET_KEY", "HOTDESK_CHAT_KEY", "PATH", "HOME"} & passed.keys()
    assert "canary" not in "".join(told)


@pytest.mark.slow
def test_ctrl_c_is_left_to_sudo_and_its_death_is_reported(tmp_path: Path) -> None:
    """The signal reaches both. Sudo belongs to root: this process may not end it, and has nothing else to do."""
    sudo = tmp_path / "sudo"
    sudo.write_text("#!/bin/sh\ntrap 'sleep 1; trap - TERM; kill -TERM $$' INT\necho up\nwhile :; do sleep 0.1; done\n")
    sudo.chmod(0o755)
    script = "from hotdesk.cli.machine import setup_root; setup_root.become_root([])"
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = [sys.executable, "-c", script, "setup"]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True
    ) as done:
        assert done.stdout is not None
        while done.stdout.readline() != b"up\n":
            pass
        os.killpg(done.pid, signal.SIGINT)
        _, error = done.communicate(timeout=30)
    assert b"Traceback" not in error
    assert done.returncode == 128 + signal.SIGTERM


@pytest.mark.slow
def test_programs_of_root_are_found_with_the_path_of_an_ordinary_user() -> None:
    script = (
        "import shutil; from hotdesk.cli import carry_out; from hotdesk.errors import BriefError\n"
        "try: carry_out(['setup', '--signer', 'f' * 32])\n"  # refused before it changes anything
        "except BriefError: print(shutil.which('useradd'))"
    )
    env = {**os.environ, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"}
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60, env=env)
    assert done.stdout.endswith("/sbin/useradd\n")


def sweep(settings: Config) -> list[tuple[str, str]]:
    """Sweep a store; return what was removed."""
    return [(each.kind, each.name) for each in store.sweep(settings.images, print)]


def test_a_sweep_of_no_store_finds_nothing(elsewhere: Config) -> None:
    assert sweep(elsewhere) == []


def test_a_sweep_keeps_layers_an_image_names_and_takes_the_rest(elsewhere: Config) -> None:
    publish(elsewhere, "a" * 64)
    publish(elsewhere, "b" * 64)  # the name moves on; no image uses the first layer any more
    assert sweep(elsewhere) == [("layer", "a" * 64)]
    assert [layer.name for layer in (elsewhere.images / "layers").iterdir()] == ["b" * 64]
    assert sweep(elsewhere) == []


def test_an_image_built_from_the_recipe_elsewhere_is_ready(elsewhere: Config) -> None:
    base, office = recipe.load("base"), recipe.load("office")
    digest = recipe.compute_digest(base, "", os.uname().machine, base.suite or "")
    publish(elsewhere, "a" * 64, recipe_digest="f" * 64)
    assert setup.find_ready_image(elsewhere, DEBIAN, base) is None
    imported = publish(elsewhere, "b" * 64, recipe_digest=digest)
    assert setup.find_ready_image(elsewhere, DEBIAN, base) == imported
    on_it = publish(
        elsewhere, "c" * 64, "office", recipe_digest=recipe.compute_digest(office, digest, os.uname().machine, "")
    )
    assert setup.find_ready_image(elsewhere, DEBIAN, office) == on_it
