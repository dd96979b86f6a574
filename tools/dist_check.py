"""Install the wheel of `dist/` on a bare Debian 13 as a newcomer would, and open a desk there: `make dist-check`.

A minimal root file system (Debian's base with pipx, from this machine's package sources) becomes the root of a separate
mount and process namespace, which has all mounts, so that nothing is left however this ends. Downloads are made before
and do not count; three commands are timed, then `setup --undo`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hotdesk.desk.image import requirements, sources
from hotdesk.desk.image.build import is_passed_on

ROOT = Path(__file__).parents[1]
SUITE = "trixie"
GOAL_S = 90.0
INCLUDE = ("ca-certificates", "pipx", "python3-venv")
PREPARE = r"""
set -e
root=$1; shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mkdir -p "$root/run/old" && mkdir -m 700 "$root/run/hotdesk-uids" && ln -s 12000 "$root/run/hotdesk-uids/next"
cd "$root"
pivot_root . run/old
umount -l /run/old
exec "$@"
"""
"""User ids in a range that desks of this machine are unlikely to use, as claims of ids are not shared with it."""


def run(*argv: str | Path, **env: str) -> str:
    """Run a program on this machine; return its output."""
    done = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv[:6]))} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def make_root(root: Path) -> None:
    """Make the bare root file system, which reaches package mirrors as this machine does."""
    lines = sources.format_lines(sources.read(), "debian", SUITE, sources.list_keyrings("debian"))
    mirrors = sources.read_settings()
    options = [f"--aptopt={line}" for line in mirrors]
    plain = ("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--skip=output/dev")
    run(*plain, f"--include={','.join(INCLUDE)}", *options, SUITE, root, *lines)
    (root / "etc/apt/apt.conf.d/99mirrors").write_text("\n".join(mirrors) + "\n")
    for path in (Path("/etc/resolv.conf"), Path("/etc/hosts"), Path("/etc/ssl/certs/ca-certificates.crt")):
        if path.exists():
            (root / path.relative_to("/")).write_bytes(path.read_bytes())


def inside(root: Path, *argv: str, check: bool = True) -> tuple[float, str]:
    """Run a program in the bare system; return its seconds and its output."""
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    env = {key: value for key, value in os.environ.items() if is_passed_on(key) and not key.startswith("PYTHON")}
    env |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    began = time.monotonic()
    command = [*alone, "sh", "-c", PREPARE, "sh", str(root), *argv]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(argv)} ended with exit code {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return seconds, done.stdout + done.stderr


def export_base(folder: Path) -> str:
    """Export this machine's base image, signed with a new key; return the key's fingerprint."""
    hotdesk = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
    images = os.environ.get("HOTDESK_IMAGES", "/var/lib/hotdesk/images")
    home = folder / "home"
    home.mkdir()
    home.chmod(0o755)
    env = {"HOTDESK_HOME": str(home), "HOTDESK_IMAGES": images}
    run(*hotdesk, "image", "export", "base", folder / "base.image", **env)
    return str(json.loads(run(*hotdesk, "key", "show", "--json", **env))["fingerprint"])


def download(root: Path, wheel: Path) -> float:
    """Download what the three commands need: wheels, from this machine's own index, and Debian packages."""
    began = time.monotonic()
    python = os.readlink(root / "usr/bin/python3").removeprefix("python")
    pip = (sys.executable, "-m", "pip", "--quiet", "download", "--python-version", python, "--only-binary=:all:")
    run(*pip, "--dest", root / "wheels", wheel, "pip", "setuptools")
    packages = " ".join((*requirements.list_packages(requirements.look()), "novnc"))
    script = f"apt-get -q update && apt-get -q install --yes --download-only --no-install-recommends {packages}"
    inside(root, "sh", "-c", script)
    return time.monotonic() - began


def main() -> None:
    """Check the wheel, and print the time of each command."""
    (wheel,) = (ROOT / "dist").glob("hotdesk-*.whl")
    with tempfile.TemporaryDirectory(prefix="hotdesk-dist-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        root = folder / "root"
        try:
            signer = export_base(folder)
            make_root(root)
            for each in (wheel, folder / "base.image"):
                shutil.copy(each, root / "root")
            print(f"downloads: {download(root, wheel):.0f} s, not counted", flush=True)
            offline = "PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels"
            total = 0.0
            for command in (
                f"pipx install --global /root/{wheel.name}",
                f"hotdesk setup --from /root/base.image --signer {signer}",
                "hotdesk run -- true",
            ):
                seconds, _ = inside(root, "sh", "-c", f"{offline} {command}")
                total += seconds
                print(f"{seconds:6.1f} s  {command.split(' /root')[0]}", flush=True)
            print(f"{total:6.1f} s  together; the goal is {GOAL_S:.0f} s")
            check_undo(root)
        finally:
            run("rm", "-rf", "--one-file-system", root)
    if total > GOAL_S:
        sys.exit("The wheel takes longer to its first desk than promised.")


def check_undo(root: Path) -> None:
    """Undo the set-up, and check that nothing of it is left."""
    output = inside(root, "hotdesk", "setup", "--undo", "--yes", "--all", "--packages")[1]
    left = [path for path in ("var/lib/hotdesk", "usr/bin/crun") if (root / path).exists()]
    left += [name for name in ("passwd", "subuid", "subgid") if "hotdesk" in (root / "etc" / name).read_text()]
    again = inside(root, "hotdesk", "setup", "--undo", "--yes", "--all", "--packages", "--json")[1]
    if left or any(step["changed"] for step in json.loads(again)):
        sys.exit(f"`hotdesk setup --undo` left {left}, or changed something again:\n{output}{again}")
    print("setup --undo: nothing left")


if __name__ == "__main__":
    main()
