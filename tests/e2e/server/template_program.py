"""A program that builds templates with E2B's SDK, run by an interpreter that has an old or new version of it."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from e2b import AsyncTemplate, Sandbox, Template, wait_for_file, wait_for_port
from e2b.exceptions import BuildException

Options = dict[str, Any]


@contextmanager
def raises(kind: type[Exception], words: str = "") -> Iterator[list[Exception]]:
    caught: list[Exception] = []
    try:
        yield caught
    except kind as e:
        if words not in str(e):
            raise AssertionError(f"{words!r} is not in {e}") from e
        caught.append(e)
        return
    raise AssertionError(f"there was no {kind.__name__}")


@contextmanager
def sandbox(name: str, options: Options) -> Iterator[Sandbox]:
    made = Sandbox.create(name, **options)
    try:
        yield made
    finally:
        made.kill()


def build(template: Any, name: str, options: Options, **more: Any) -> list[str]:
    """Build a template; return the lines of its log."""
    lines: list[str] = []
    Template.build(template, name, on_build_logs=lambda entry: lines.append(entry.message), **more, **api(options))
    return lines


def api(options: Options) -> Options:
    """Return the options that make a template call use this server."""
    return {name: options[name] for name in ("api_key", "api_url")}


def runs_steps(options: Options, folder: Path) -> None:
    """Commands run as their user, in their folder, with their variables; files are moved, created, linked, removed."""
    template = (
        Template(file_context_path=folder)
        .from_base_image()
        .set_envs({"COLOUR": "green"})
        .run_cmd(["echo first > one.txt", 'test "$COLOUR" = green', 'test "$(whoami)" = user'])
        .run_cmd('test "$(whoami)" = root && echo two > /opt/two.txt', user="root")
        .set_workdir("/app")
        .run_cmd("pwd > here.txt")
        .make_dir("/app/made", mode=0o750)
        .make_symlink("/app/here.txt", "/app/link.txt")
        .rename("/app/here.txt", "/app/there.txt")
        .make_symlink("/app/there.txt", "/app/link.txt", force=True)
        .remove("/home/user/one.txt")
        .run_cmd("true")
        .run_cmd("true")
    )
    lines = build(template, "steps", options)
    assert any("RUN echo first > one.txt" in line for line in lines), lines
    with sandbox("steps", options) as made:
        look = made.commands.run("pwd; cat there.txt link.txt /opt/two.txt; stat -c '%a %U' made; ls /home/user")
        assert look.stdout == "/app\n/app\n/app\ntwo\n750 user\n", look.stdout


def copies_files(options: Options, folder: Path) -> None:
    (folder / "tree/deep").mkdir(parents=True, exist_ok=True)
    (folder / "tree/a.txt").write_text("a")
    (folder / "tree/deep/b.txt").write_text("b")
    (folder / "tree/unlike-others.txt").write_text(str(time.time()))
    (folder / "tree/run.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "tree/run.sh").chmod(0o755)
    if not (folder / "tree/link").is_symlink():
        (folder / "tree/link").symlink_to("a.txt")
    template = (
        Template(file_context_path=folder)
        .from_base_image()
        .copy("tree", "/data")
        .copy("tree/a.txt", "/home/user/named.txt", mode=0o600)
        .copy("tree/a.txt", "/home/user/into/", user="root")
        .copy("tree/*.txt", "globbed")
        .copy_items([{"src": "tree/deep", "dest": "/data/deep2"}, {"src": "tree/link", "dest": "followed",
                                                                   "resolveSymlinks": True}])
    )  # fmt: skip
    lines = build(template, "copies", options)
    with sandbox("copies", options) as made:
        shown = made.commands.run(
            "cat /data/a.txt /data/deep/b.txt /data/link /data/deep2/b.txt globbed/a.txt followed; echo; /data/run.sh; "
            "readlink /data/link; stat -c '%a %U' named.txt into/a.txt /data; test -L followed || echo file"
        ).stdout
        assert shown == "abaaba\nran\na.txt\n600 user\n644 root\n755 user\nfile\n".replace("abaaba", "ababaa"), shown
    again = build(template, "copies", options)
    assert any("CACHED" in line for line in again)
    assert not any("CACHED" in line for line in lines)
    assert any("already cached" in line for line in again)
    (folder / "tree/a.txt").write_text("changed")
    build(template, "copies", options)
    with sandbox("copies", options) as made:
        assert made.files.read("/data/a.txt") == "changed"


def adds_users(options: Options, folder: Path) -> None:
    """The last user and folder are the sandbox's; a missing user is created."""
    template = (
        Template(file_context_path=folder)
        .from_base_image()
        .set_user("guest")
        .run_cmd('test "$(whoami)" = guest')
        .set_workdir("/srv/guest")
        .run_cmd("touch mine")
        .run_cmd("id -un > /tmp/who", user="user")
    )
    build(template, "users", options)
    with sandbox("users", options) as made:
        assert made.commands.run("whoami; pwd; echo $HOME").stdout == "guest\n/srv/guest\n/home/guest\n"
        assert made.commands.run("whoami", user="root").stdout == "root\n"
        assert made.commands.run("stat -c %U /srv/guest/mine", user="user").stdout == "guest\n"
        made.files.write("noted.txt", "x")
        assert made.files.get_info("/home/guest/noted.txt").owner == "guest"
    with raises(BuildException, "invalid username: 'root123'"):
        build(Template().from_base_image().run_cmd("whoami", user="root123"), "nobody", options)


def starts_servers(options: Options, folder: Path) -> None:
    """A start command runs in every sandbox, and is ready before the program gets it."""
    template = (
        Template(file_context_path=folder)
        .from_base_image()
        .run_cmd("echo hello > index.html")
        .set_start_cmd("python3 -m http.server 8000", wait_for_port(8000))
    )
    build(template, "starts", options)
    with sandbox("starts", options) as made:
        assert made.commands.run("curl -s http://127.0.0.1:8000/index.html").stdout == "hello\n"
    never = Template().from_base_image().set_start_cmd("echo why it fails; exit 3", wait_for_file("/nowhere"))
    with raises(BuildException, "exit status 3"):
        build(never, "never", options)


def stands_on_templates(options: Options, folder: Path) -> None:
    build(Template().from_template("steps").run_cmd("echo more > more.txt"), "above", options)
    with sandbox("above", options) as made:
        assert made.commands.run("cat /app/more.txt /app/there.txt").stdout == "more\n/app\n"
    (folder / "Dockerfile").write_text(
        "FROM e2bdev/base\nENV A=b\nWORKDIR /work\nCOPY Dockerfile ./copied.txt\nRUN echo $A > env.txt\n"
    )
    build(Template(file_context_path=folder).from_dockerfile(str(folder / "Dockerfile")), "docker", options)
    with sandbox("docker", options) as made:
        assert (
            made.commands.run("cat /work/env.txt; head -1 /work/copied.txt; pwd").stdout
            == "b\nFROM e2bdev/base\n/work\n"
        )


def tags_builds(options: Options, folder: Path) -> None:
    """Tags name builds; moving one changes what a sandbox begins with."""
    build(Template().from_base_image().run_cmd("echo 1 > v"), "tagged:v1", options)
    build(Template().from_base_image().run_cmd("echo 2 > v"), "tagged", options, tags=["v2", "stable"])
    with sandbox("tagged:v1", options) as one, sandbox("tagged:stable", options) as two:
        assert (one.files.read("v"), two.files.read("v")) == ("1\n", "2\n")
    moved = Template.assign_tags("tagged:v1", ["stable", "old"], **api(options))
    assert sorted(moved.tags) == ["old", "stable"]
    with sandbox("tagged:stable", options) as made:
        assert made.files.read("v") == "1\n"
    assert {each.tag for each in Template.get_tags("tagged", **api(options))} == {"v1", "v2", "stable", "old"}
    Template.remove_tags("tagged", ["old"], **api(options))
    assert "old" not in {each.tag for each in Template.get_tags("tagged", **api(options))}
    assert Template.alias_exists("tagged", **api(options))
    assert not Template.alias_exists("never-built", **api(options))
    with raises(Exception, "not found"):
        Template.assign_tags("tagged:none", ["x"], **api(options))


def builds_in_background(options: Options, folder: Path) -> None:
    made = Template.build_in_background(
        Template().from_base_image().run_cmd(f"echo working; sleep 1; : {time.time()}"), "behind", **api(options)
    )
    entries: list[str] = []
    while True:
        found = Template.get_build_status(made, logs_offset=len(entries), **api(options))
        entries += [each.message for each in found.log_entries]
        if found.status.value in ("ready", "error"):
            break
        time.sleep(0.1)
    assert found.status.value == "ready", entries
    assert sum("working" in each for each in entries) == 2, entries  # the step, and its output


def names_failures(options: Options, folder: Path) -> None:
    """A failure names its step: the traceback leads to the line that asked for it."""
    template = Template().from_base_image().run_cmd("true")
    template = template.run_cmd("echo because >&2; exit 7")  # here
    with raises(BuildException, "exit status 7") as caught:
        build(template, "fails", options)
    frame = caught[0].__traceback__
    lines = []
    while frame is not None:
        lines.append(frame.tb_lineno)
        frame = frame.tb_next
    here = next(at for at, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith("# here"))
    assert here in lines, lines
    with raises(BuildException, "hotdesk image import"):
        build(Template().from_image("ubuntu:22.04"), "imported", options)
    with raises(BuildException, "does not exist"):
        build(Template().from_template("no-such-template"), "imported", options)


def skips_the_cache(options: Options, folder: Path) -> None:
    """A repeated build takes no time, unless the cache is disabled."""

    def template() -> Any:
        return Template().from_base_image().run_cmd("date +%N > a").run_cmd("date +%N > b")

    def read(name: str) -> tuple[str, str]:
        with sandbox(name, options) as made:
            return made.files.read("a"), made.files.read("b")

    build(template(), "cached", options, skip_cache=True)
    first = read("cached")
    assert all("CACHED" in line for line in build(template(), "cached", options) if "builder" in line)
    assert read("cached") == first
    build(Template().from_base_image().run_cmd("date +%N > a").skip_cache().run_cmd("date +%N > b"), "cached", options)
    second = read("cached")
    assert second[0] == first[0]
    assert second[1] != first[1]
    build(template(), "cached", options, skip_cache=True)
    assert read("cached")[0] != first[0]


def builds_async(options: Options, folder: Path) -> None:
    async def work() -> None:
        template = AsyncTemplate().from_base_image().run_cmd("echo async > how")
        made = await AsyncTemplate.build_in_background(template, "later", **api(options))
        while (await AsyncTemplate.get_build_status(made, **api(options))).status.value not in ("ready", "error"):
            await asyncio.sleep(0.1)
        await AsyncTemplate.build(template, "later:again", **api(options))
        assert await AsyncTemplate.alias_exists("later", **api(options))
        await AsyncTemplate.assign_tags("later:again", ["third"], **api(options))
        assert {each.tag for each in await AsyncTemplate.get_tags("later", **api(options))} >= {"again", "third"}
        await AsyncTemplate.remove_tags("later", ["third"], **api(options))
        with raises(BuildException, "exit status 1"):
            await AsyncTemplate.build(AsyncTemplate().from_base_image().run_cmd("false"), "later", **api(options))

    asyncio.run(work())
    with sandbox("later:again", options) as made:
        assert made.files.read("how") == "async\n"


def sizes_sandboxes(options: Options, folder: Path) -> None:
    build(Template().from_base_image().run_cmd("true"), "sized", options, cpu_count=1, memory_mb=512)
    with sandbox("sized", options) as made:
        info = made.get_info()
        assert (info.cpu_count, info.memory_mb) == (1, 512)


def clones(options: Options, folder: Path) -> None:
    template = (
        Template()
        .from_base_image()
        .run_cmd(
            "git init -q repo && cd repo && git -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m x"
        )
        .git_clone("file:///home/user/repo", "/home/user/cloned", depth=1)
    )
    build(template, "clones", options)
    with sandbox("clones", options) as made:
        assert made.commands.run("git -C cloned log --format=%s").stdout == "x\n"


def installs_packages(options: Options, folder: Path) -> None:
    template = Template().from_base_image().pip_install("six").apt_install("hello", no_install_recommends=True)
    build(template, "packages", options)
    with sandbox("packages", options) as made:
        assert (
            made.commands.run("python3 -c 'import six; print(six.__name__)'; hello -t").stdout == "six\nhello, world\n"
        )


PARTS: list[Callable[[Options, Path], None]] = [
    runs_steps, copies_files, adds_users, starts_servers, stands_on_templates, tags_builds, builds_in_background,
    names_failures, skips_the_cache, builds_async, sizes_sandboxes, clones, installs_packages,
]  # fmt: skip


def main() -> None:
    key, url, *wanted = sys.argv[1:]
    options = {"api_key": key, "api_url": url, "sandbox_url": url}
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            if not wanted or part.__name__ in wanted:
                part(options, Path(os.path.realpath(folder)))
                print(part.__name__, flush=True)
    print(f"all of it, with {version('e2b')}")


if __name__ == "__main__":
    main()
