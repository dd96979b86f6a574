"""Carry out a recipe: the program that `build.py` starts, in a mount and pid namespace that end with it."""

from __future__ import annotations

import fnmatch
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, field
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk.image import pip_tags, sources
from hotdesk.desk.image.normalise import find_python, furnish
from hotdesk.errors import HotdeskError, ImageError
from hotdesk.linux import syscalls
from hotdesk.linux.openat2 import RootDirectory, open_strictly
from hotdesk.strict import read

NODES = ("null", "zero", "full", "random", "urandom", "tty")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_CACHE_DIR": "1",
}
LEFTOVERS = (
    (b"var/lib/dpkg", "*-old"),
    (b"var/cache/debconf", "*-old"),
    (b"var/log", "*.log"),
    (b"var/log/apt", "*"),
    (b"etc", "*-"),
)
"""Folders, and the names of files in them."""
APT_SETTINGS = 'Acquire::Languages "none";\nAPT::Install-Recommends "false";\n'
"""Settings for apt in the image; they reveal nothing about how this machine reaches its mirrors."""


@dataclass(frozen=True, slots=True)
class BuildTask:
    """The layer to build, and where."""

    name: str
    work: str
    """A private directory; `tree` in it becomes the new layer."""
    lowers: tuple[str, ...] = ()
    """The parent's layers, topmost first; empty for an image built from packages alone."""
    suite: str = ""
    include: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    run: tuple[str, ...] = ()

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def load(text: str) -> BuildTask:
        return read(BuildTask, json.loads(text))


def main() -> int:
    """Carry out the task on standard input; print progress to standard output, everything else to standard error."""
    task = BuildTask.load(sys.stdin.read())
    try:
        carry_out(task)
    except HotdeskError as e:
        print(e, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as e:
        print(f"{task.name}: `{' '.join(map(str, e.cmd))[:200]}` failed with exit code {e.returncode}", file=sys.stderr)
        return 1
    return 0


def carry_out(task: BuildTask) -> None:
    work = Path(task.work)
    root = work / "tree"
    root.mkdir(0o755)
    if task.lowers:
        root = stack(task, work)
    else:
        _bootstrap(task, root)
    with RootDirectory(root) as inside:
        furnish(inside)
        equip(root)
        if task.apt and task.lowers:
            _install_packages(task, root, work)
        if task.pip:
            _install_wheels(task, root)
        for path, text in task.files.items():
            inside.write(path.strip("/").encode(), text.encode(), 0o755 if text.startswith("#!") else 0o644)
        for line in task.run:
            say(task, f"running {line.strip().splitlines()[0][:60]}")
            enter(root, "/bin/sh", "-ec", line)
        for mounted in ("tmp", "run", "dev", "proc"):
            run_tool("umount", "--recursive", root / mounted)
        furnish(inside)
        remove_leftovers(inside)


def remove_leftovers(root: RootDirectory) -> None:
    """Remove what package programs leave behind, without following links: the image below may be hostile."""
    for folder, pattern in LEFTOVERS:
        try:
            fd = open_strictly(root.fd, folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # missing, or reached by a link
            continue
        try:
            for name in fnmatch.filter(os.listdir(fd), pattern):
                if not name.startswith(".") and not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
                    os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)


def say(task: BuildTask, text: str) -> None:
    print(f"{task.name}: {text}", flush=True)


def run_tool(*argv: str | Path, env: dict[str, str] | None = None) -> None:
    """Run a program of the host; its output goes to the log."""
    subprocess.run([str(each) for each in argv], check=True, stdin=subprocess.DEVNULL, stdout=2, env=env)


def enter(root: Path, *argv: str) -> None:
    """Run a program of the image, inside the image, without network."""
    run_tool("unshare", "--net", "chroot", root, *argv, env=ENVIRONMENT)


def _bootstrap(task: BuildTask, root: Path) -> None:
    targets = sources.read()
    distro, _ = sources.find_distribution(targets)
    lines = sources.format_lines(targets, distro, task.suite, sources.list_keyrings(distro))
    count = len(task.include) + len(task.apt)
    say(task, f"downloading and unpacking {distro} {task.suite} with {count} packages (about a minute)")
    excluded = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*")
    run_tool(
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--skip=output/dev"),
        f"--include={','.join((*task.include, *task.apt))}",
        *(f"--aptopt={line}" for line in (*APT_SETTINGS.splitlines(), *sources.read_settings())),
        *(f"--dpkgopt=path-exclude={path}" for path in excluded),
        *("--dpkgopt=path-include=/usr/share/doc/*/copyright", "--dpkgopt=force-unsafe-io"),
        *(task.suite, str(root), *lines),
    )
    (root / "etc/apt/sources.list").write_text("".join(f"{sources.sanitize_line(line)}\n" for line in lines))
    (root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    (root / "etc/apt/apt.conf.d/90hotdesk").write_text(APT_SETTINGS)


def stack(task: BuildTask, work: Path) -> Path:
    """Mount the new layer over those of the parent, by short names: mount options are one page."""
    for name in ("root", "overlay"):
        (work / name).mkdir()
    names = [f"l{number}" for number in range(len(task.lowers))]
    for name, layer in zip(names, task.lowers, strict=True):
        (work / name).symlink_to(layer)
    options = f"lowerdir={':'.join(names)},upperdir=tree,workdir=overlay,redirect_dir=off,index=off,metacopy=off"
    os.chdir(work)
    try:
        syscalls.mount("overlay", "root", "overlay", 0, options)
    finally:
        os.chdir("/")
    return work / "root"


def equip(root: Path) -> None:
    """Mount what programs in the image need: /proc, a few devices, temporary folders."""
    run_tool("mount", "-t", "proc", "proc", root / "proc")
    for name, mode in (("dev", "0755"), ("run", "0755"), ("tmp", "1777")):
        run_tool("mount", "-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", root / name)
    for name in NODES:
        (root / "dev" / name).touch()
        run_tool("mount", "--bind", f"/dev/{name}", root / "dev" / name)
    (root / "dev/fd").symlink_to("/proc/self/fd")
    (root / "dev/shm").mkdir(0o1777)


def _install_packages(task: BuildTask, root: Path, work: Path) -> None:
    """Install packages: the host's apt downloads them, the image's installs them."""
    distro, suite = release(root)
    lines = sources.format_lines(sources.read(), distro, suite, sources.list_keyrings(distro))
    say(task, f"installing {len(task.apt)} packages and their dependencies from {distro} {suite}")
    for name in ("lists", "archives"):
        (work / name / "partial").mkdir(parents=True)
    shelf, there = root / "run/hotdesk", "/run/hotdesk"
    shelf.mkdir()
    for name, target in (("lists", root / "var/lib/apt/lists"), ("archives", root / "var/cache/apt")):
        target.mkdir(parents=True, exist_ok=True)
        run_tool("mount", "--bind", work / name, target)
    (root / "var/cache/apt/archives/partial").mkdir(parents=True)
    (shelf / "sources.list").write_text("".join(f"{line}\n" for line in lines))
    (shelf / "apt.conf").write_text(_format_apt_settings(root))
    policy = root / "usr/sbin/policy-rc.d"
    had_policy = policy.exists()
    if not had_policy:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    outside = ("apt-get", "-c", shelf / "apt.conf", "-q")
    run_tool(*outside, "update")
    run_tool(*outside, "install", "--yes", "--no-install-recommends", "--download-only", *task.apt)
    where = ("-o", f"Dir::Etc::SourceList={there}/sources.list", "-o", "Dir::Etc::SourceParts=-")
    quick = ("-o", "DPkg::Options::=--force-unsafe-io", "-o", "DPkg::Options::=--force-confdef")
    install = ("install", "--yes", "--no-install-recommends", "--no-download")
    enter(root, "apt-get", "-q", *where, *quick, *install, *task.apt)
    if not had_policy:
        policy.unlink()
    for mounted in ("var/lib/apt/lists", "var/cache/apt"):
        run_tool("umount", root / mounted)


def _format_apt_settings(root: Path) -> str:
    return "".join(
        f"{line}\n"
        for line in (
            f'Dir "{root}/";',
            'Dir::State "var/lib/apt/";',
            f'Dir::State::status "{root}/var/lib/dpkg/status";',
            'Dir::Cache "var/cache/apt/";',
            'Dir::Log "run/";',
            f'Dir::Etc "{root}/etc/apt/";',
            f'Dir::Etc::SourceList "{root}/run/hotdesk/sources.list";',
            'Dir::Etc::SourceParts "-";',
            'APT::Sandbox::User "root";',
            'Acquire::Languages "none";',
            "#clear APT::Update::Pre-Invoke;",
            "#clear APT::Update::Post-Invoke;",
            "#clear APT::Update::Post-Invoke-Success;",
            "#clear DPkg::Post-Invoke;",
        )
    )


def release(root: Path) -> tuple[str, str]:
    with RootDirectory(root) as inside:
        try:
            text = inside.read(b"etc/os-release").decode("utf-8", "replace")
        except OSError:
            text = ""
    facts = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    distro, suite = (facts.get(key, "").strip("\"'") for key in ("ID", "VERSION_CODENAME"))
    if distro not in sources.COMPONENTS or not suite:
        raise ImageError(
            f"`apt` in a recipe needs an image of Debian or Ubuntu; its /etc/os-release says ID={distro[:40]!r}"
        )
    return distro, suite


def _install_wheels(task: BuildTask, root: Path) -> None:
    """Install Python packages: the host's pip downloads wheels, the image's installs them."""
    with RootDirectory(root) as inside:
        python = find_python(inside, f"image {task.name!r}")
    say(task, f"installing {len(task.pip)} Python packages and their dependencies")
    probe = ["unshare", "--net", "chroot", str(root), python, "-c", pip_tags.PROBE]
    found = subprocess.run(probe, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout
    folder = root / "tmp/wheels"
    folder.mkdir()
    run_tool(*download(found, folder, task.pip), env=dict(os.environ))
    enter(root, python, "-m", "pip", "install", "--no-index", "--find-links", "/tmp/wheels", *task.pip)  # noqa: S108


def download(found: str, folder: Path, requirements: Sequence[str]) -> list[str]:
    pip = [sys.executable, "-P", "-m", "pip", "download", "--only-binary=:all:", "--no-cache-dir"]
    return [*pip, "--dest", str(folder), *pip_tags.list_platform_options(found), *requirements]


if __name__ == "__main__":
    sys.exit(main())
