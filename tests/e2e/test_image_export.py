"""Tests of a signed image that goes from one machine to another: the first desk there needs no build."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.image import image
from tests.conftest import state_directory
from tests.e2e.test_setup import shelf  # noqa: F401 - a fixture

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]
COMMAND = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
RECIPE = (
    'from = "base"\nrun = ["rm /usr/bin/zip", "rm -r /usr/share/nano && mkdir /usr/share/nano", "echo hi > /etc/hi"]\n'
)


def hotdesk(home: Path, images: Path | None, *argv: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HOTDESK_HOME": str(home)}
    env |= {"HOTDESK_IMAGES": str(images)} if images else {}
    env.pop("HOTDESK_SIGNERS", None)
    return subprocess.run([*COMMAND, *argv], capture_output=True, text=True, check=False, timeout=250, env=env)


def fingerprint(home: Path) -> str:
    return str(json.loads(hotdesk(home, None, "key", "show", "--json").stdout)["fingerprint"])


@pytest.mark.usefixtures("settings")
@pytest.mark.long
def test_an_image_that_one_machine_exports_is_set_up_on_another(home: Path, settings: Config, tmp_path: Path) -> None:
    file = tmp_path / "base.image"
    done = hotdesk(home, settings.images, "image", "export", "base", file)
    assert done.returncode == 0, done.stderr
    signer = fingerprint(home)
    assert done.stdout.strip().endswith(f"signed by {signer}")
    with state_directory() as other:
        refused = hotdesk(other, None, "image", "import", file)
        assert (refused.returncode, f"unknown key, {signer}" in refused.stderr) == (125, True)
        assert not (other / "lib/images/layers").exists()
        first = hotdesk(other, None, "setup", "--from", file, "--signer", signer)
        assert first.returncode == 0, first.stderr
        assert "image base: " in first.stdout
        assert "imported" in first.stdout
        assert hotdesk(other, None, "run", "--", "python3", "-c", "print(6*7)").stdout == "42\n"
        again = json.loads(hotdesk(other, None, "setup", "--json").stdout)
        assert not any(step["changed"] for step in again), "a set-up without --from takes the imported base for its own"
        once_more = json.loads(hotdesk(other, None, "setup", "--from", file, "--signer", signer, "--json").stdout)
        assert not any(step["changed"] for step in once_more)
        assert json.loads(hotdesk(home, None, "journal", "show", "--json").stdout.splitlines()[-1])  # readable
        undo(other)


def undo(home: Path) -> None:
    """Undo a set-up with an open desk and a file in the drive: it asks, then keeps the drive, then removes all."""
    desk = hotdesk(home, None, "open").stdout.strip()
    (home / "report.txt").write_text("mine")
    assert hotdesk(home, None, "drive", "put", home / "report.txt", "report.txt").returncode == 0
    asked = hotdesk(home, None, "setup", "--undo")
    assert asked.returncode == 125
    assert f"burns 1 open desk(s): {desk}" in asked.stderr
    assert (home / "lib/images/images/base.json").exists()
    done = hotdesk(home, None, "setup", "--undo", "--yes", "--json")
    steps = {step["name"]: step for step in json.loads(done.stdout)}
    assert steps["desks"]["outcome"] == "1 burnt"
    assert f"kept: {home / 'lib/drive'}" in steps["own files"]["outcome"]
    assert sorted(each.name for each in (home / "lib").iterdir()) == ["drive", "keys"]
    assert not (home / "run").exists()
    assert "destroys" in hotdesk(home, None, "setup", "--undo", "--all").stderr
    assert hotdesk(home, None, "setup", "--undo", "--all", "--yes").returncode == 0
    assert not (home / "lib").exists()
    last = json.loads(hotdesk(home, None, "setup", "--undo", "--all", "--yes", "--json").stdout)
    assert not any(step["changed"] for step in last)


@pytest.mark.long
def test_layers_are_exported_as_a_desk_sees_them_and_always_in_the_same_bytes(
    home: Path,
    shelf: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.toml").write_text(RECIPE)
    assert hotdesk(home, shelf, "image", "build", tmp_path / "mine.toml").returncode == 0
    for name in ("one.image", "two.image"):
        done = hotdesk(home, shelf, "image", "export", "mine", tmp_path / name)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "one.image").read_bytes() == (tmp_path / "two.image").read_bytes()
    assert len(image.find(shelf, "mine").layers) == 2
    done = hotdesk(home, shelf, "image", "import", f"file://{tmp_path / 'one.image'}", "--name", "copy")
    assert done.returncode == 0, done.stderr
    copied = image.find(shelf, "copy")
    assert len(copied.layers) == 1
    script = "cat /etc/hi; ls /usr/share/nano; command -v zip || echo gone; stat -c %U /home/user; python3 -V >&2"
    ran = hotdesk(home, shelf, "run", "--image", "copy", "--", "sh", "-c", script)
    assert (ran.returncode, ran.stdout) == (0, "hi\ngone\nuser\n"), ran.stderr
    events = hotdesk(home, shelf, "journal", "show", "--json").stdout
    assert events.count('"ImageSigned"') >= 2
