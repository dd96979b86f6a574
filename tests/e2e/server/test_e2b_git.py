"""Tests of `git` of E2B's own SDK, sync and async, at this server: git runs inside, by `commands`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from e2b import (
    AsyncSandbox,
    AuthenticationException,
    CommandExitException,
    GitAuthException,
    GitUpstreamException,
    InvalidArgumentException,
    Sandbox,
)

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
HOME, FAR = "/home/user/here", "/home/user/far.git"
ASKS = """
import http.server
class Asks(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic")
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", 8401), Asks).serve_forever()
"""
ASKING = "http://127.0.0.1:8401/x.git"


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    made = Sandbox.create(**server.e2b)
    made.git.configure_user("Ada", "ada@example.test")
    made.git.init(FAR, bare=True, initial_branch="main")
    made.git.init(HOME, initial_branch="main")
    made.git.remote_add(HOME, "origin", FAR)
    made.commands.run(f"echo one > {HOME}/a")
    made.git.add(HOME)
    made.git.commit(HOME, "first")
    made.git.push(HOME, "origin", "main")
    made.files.write("asks.py", ASKS)
    made.commands.run("python3 asks.py", background=True, timeout=0)
    made.commands.run("for i in $(seq 300); do (: </dev/tcp/127.0.0.1/8401) 2>/dev/null && break; sleep 0.1; done")
    yield made
    made.kill()


def test_a_repository_is_created_filled_and_described(sandbox: Sandbox) -> None:
    git = sandbox.git
    git.init("made", initial_branch="trunk")
    sandbox.files.write("made/new", "x")
    told = git.status("made")
    assert (told.current_branch, told.is_clean, told.has_untracked) == ("trunk", False, True)
    git.add("made", files=["new"])
    assert [(one.name, one.status, one.staged) for one in git.status("made").file_status] == [("new", "added", True)]
    git.commit("made", "a message", author_name="Bob", author_email="bob@example.test")
    said = sandbox.commands.run("git -C made log --format='%an %ae %s'").stdout
    assert said == "Bob bob@example.test a message\n"
    assert git.status("made").is_clean


def test_branches_are_created_and_deleted(sandbox: Sandbox) -> None:
    git = sandbox.git
    git.create_branch(HOME, "side")
    found = git.branches(HOME)
    assert (sorted(found.branches), found.current_branch) == (["main", "side"], "side")
    git.checkout_branch(HOME, "main")
    git.delete_branch(HOME, "side", force=True)
    assert git.branches(HOME).branches == ["main"]
    with pytest.raises(CommandExitException, match="128"):
        git.create_branch(HOME, "main")
    with pytest.raises(CommandExitException):
        git.checkout_branch(HOME, "nowhere")
    with pytest.raises(CommandExitException):
        git.delete_branch(HOME, "nowhere")


def test_changed_files_are_restored(sandbox: Sandbox) -> None:
    git = sandbox.git
    sandbox.files.write(f"{HOME}/a", "two")
    git.restore(HOME, paths=["a"])
    assert sandbox.files.read(f"{HOME}/a") == "one\n"
    sandbox.files.write(f"{HOME}/b", "b")
    git.add(HOME)
    git.reset(HOME, mode="hard")
    assert not sandbox.files.exists(f"{HOME}/b")
    with pytest.raises(CommandExitException):
        git.restore(HOME, paths=["nothing"])
    with pytest.raises(CommandExitException):
        git.reset(HOME, target="nothing")


def test_commits_are_pushed_and_pulled(sandbox: Sandbox) -> None:
    git = sandbox.git
    git.clone(FAR, "/home/user/clone", branch="main", depth=1)
    git.commit("/home/user/clone", "empty", allow_empty=True)
    git.push("/home/user/clone")
    git.pull(HOME, "origin", "main")
    assert sandbox.commands.run(f"git -C {HOME} log -1 --format=%s").stdout == "empty\n"
    assert git.status("/home/user/clone").upstream == "origin/main"


def test_remotes_and_settings_are_stored(sandbox: Sandbox) -> None:
    git = sandbox.git
    git.remote_add(HOME, "other", "https://a.test/x.git", overwrite=True)
    assert git.remote_get(HOME, "other") == "https://a.test/x.git"
    assert git.remote_get(HOME, "none") is None
    git.set_config("pull.rebase", "true", scope="local", path=HOME)
    assert git.get_config("pull.rebase", scope="local", path=HOME) == "true"
    assert git.get_config("no.such") is None
    assert git.get_config("user.email") == "ada@example.test"


def test_credentials_are_stored_on_request(sandbox: Sandbox) -> None:
    git = sandbox.git
    git.dangerously_authenticate("ada", "a-token", host="git.test")
    assert sandbox.files.read(".git-credentials").strip().endswith("ada:a-token@git.test")
    sandbox.commands.run("rm .git-credentials; git config --global --unset credential.helper")


def test_git_failures_raise_their_own_errors(sandbox: Sandbox) -> None:
    git = sandbox.git
    with pytest.raises(CommandExitException):
        git.init("/proc/nowhere")
    with pytest.raises(CommandExitException):
        git.status("/nowhere")
    with pytest.raises(CommandExitException):
        git.branches("/nowhere")
    with pytest.raises(CommandExitException):
        git.add(HOME, files=["nothing"])
    with pytest.raises(CommandExitException):
        git.commit(HOME, "nothing to say")
    with pytest.raises(CommandExitException):
        git.remote_add(HOME, "origin", FAR)
    with pytest.raises(AuthenticationException):
        git.remote_get(HOME, "origin", user="nobody-here")
    with pytest.raises(InvalidArgumentException):
        git.set_config("", "x")
    with pytest.raises(InvalidArgumentException):
        git.get_config("")
    with pytest.raises(InvalidArgumentException):
        git.configure_user("", "")
    with pytest.raises(InvalidArgumentException):
        git.dangerously_authenticate("ada", "")


def test_a_password_or_a_branch_that_is_missing_is_reported_as_such(sandbox: Sandbox) -> None:
    git = sandbox.git
    with pytest.raises(GitAuthException):
        git.clone(ASKING, "asked")
    git.init("lone", initial_branch="main")
    git.commit("lone", "one", allow_empty=True)
    git.remote_add("lone", "asking", ASKING, overwrite=True)
    with pytest.raises(GitAuthException):
        git.push("lone", "asking", "main")
    with pytest.raises(GitAuthException):
        git.pull("lone", "asking", "main")
    git.remote_add("lone", "origin", FAR, overwrite=True)
    with pytest.raises(GitUpstreamException):
        git.push("lone", "origin", set_upstream=False)
    with pytest.raises(GitUpstreamException):
        git.pull("lone")


# -- asynchronous --------------------------------------------------------------------------------------------------


@pytest.fixture
async def remote(sandbox: Sandbox, server: Served) -> AsyncSandbox:
    return await AsyncSandbox.connect(sandbox.sandbox_id, **server.e2b)


async def test_a_repository_is_created_filled_and_described_asynchronously(remote: AsyncSandbox) -> None:
    git = remote.git
    await git.init("made-too", initial_branch="trunk")
    await remote.files.write("made-too/new", "x")
    told = await git.status("made-too")
    assert (told.current_branch, told.is_clean, told.has_untracked) == ("trunk", False, True)
    await git.add("made-too", files=["new"])
    assert [(one.name, one.status, one.staged) for one in (await git.status("made-too")).file_status] == [
        ("new", "added", True)
    ]
    await git.commit("made-too", "a message", author_name="Bob", author_email="bob@example.test")
    said = (await remote.commands.run("git -C made-too log --format='%an %ae %s'")).stdout
    assert said == "Bob bob@example.test a message\n"
    assert (await git.status("made-too")).is_clean


async def test_branches_are_created_and_deleted_asynchronously(remote: AsyncSandbox) -> None:
    git = remote.git
    await git.create_branch(HOME, "aside")
    found = await git.branches(HOME)
    assert (sorted(found.branches), found.current_branch) == (["aside", "main"], "aside")
    await git.checkout_branch(HOME, "main")
    await git.delete_branch(HOME, "aside", force=True)
    assert (await git.branches(HOME)).branches == ["main"]
    with pytest.raises(CommandExitException, match="128"):
        await git.create_branch(HOME, "main")
    with pytest.raises(CommandExitException):
        await git.checkout_branch(HOME, "nowhere")
    with pytest.raises(CommandExitException):
        await git.delete_branch(HOME, "nowhere")


async def test_changed_files_are_restored_asynchronously(remote: AsyncSandbox) -> None:
    git = remote.git
    await remote.files.write(f"{HOME}/a", "two")
    await git.restore(HOME, paths=["a"])
    assert await remote.files.read(f"{HOME}/a") == "one\n"
    await remote.files.write(f"{HOME}/b", "b")
    await git.add(HOME)
    await git.reset(HOME, mode="hard")
    assert not await remote.files.exists(f"{HOME}/b")
    with pytest.raises(CommandExitException):
        await git.restore(HOME, paths=["nothing"])
    with pytest.raises(CommandExitException):
        await git.reset(HOME, target="nothing")


async def test_commits_are_pushed_and_pulled_asynchronously(remote: AsyncSandbox) -> None:
    git = remote.git
    await git.clone(FAR, "/home/user/clone-too", branch="main", depth=1)
    await git.commit("/home/user/clone-too", "empty", allow_empty=True)
    await git.push("/home/user/clone-too")
    await git.pull(HOME, "origin", "main")
    assert (await remote.commands.run(f"git -C {HOME} log -1 --format=%s")).stdout == "empty\n"
    assert (await git.status("/home/user/clone-too")).upstream == "origin/main"


async def test_remotes_and_settings_are_stored_asynchronously(remote: AsyncSandbox) -> None:
    git = remote.git
    await git.remote_add(HOME, "other", "https://a.test/x.git", overwrite=True)
    assert await git.remote_get(HOME, "other") == "https://a.test/x.git"
    assert await git.remote_get(HOME, "none") is None
    await git.set_config("pull.rebase", "true", scope="local", path=HOME)
    assert await git.get_config("pull.rebase", scope="local", path=HOME) == "true"
    assert await git.get_config("no.such") is None
    assert await git.get_config("user.email") == "ada@example.test"


async def test_credentials_are_stored_on_request_asynchronously(remote: AsyncSandbox) -> None:
    git = remote.git
    await git.dangerously_authenticate("ada", "a-token", host="git.test")
    assert (await remote.files.read(".git-credentials")).strip().endswith("ada:a-token@git.test")
    await remote.commands.run("rm .git-credentials; git config --global --unset credential.helper")


async def test_git_failures_raise_their_own_errors_asynchronously(remote: AsyncSandbox) -> None:
    git = remote.git
    with pytest.raises(CommandExitException):
        await git.init("/proc/nowhere")
    with pytest.raises(CommandExitException):
        await git.status("/nowhere")
    with pytest.raises(CommandExitException):
        await git.branches("/nowhere")
    with pytest.raises(CommandExitException):
        await git.add(HOME, files=["nothing"])
    with pytest.raises(CommandExitException):
        await git.commit(HOME, "nothing to say")
    with pytest.raises(CommandExitException):
        await git.remote_add(HOME, "origin", FAR)
    with pytest.raises(AuthenticationException):
        await git.remote_get(HOME, "origin", user="nobody-here")
    with pytest.raises(InvalidArgumentException):
        await git.set_config("", "x")
    with pytest.raises(InvalidArgumentException):
        await git.get_config("")
    with pytest.raises(InvalidArgumentException):
        await git.configure_user("", "")
    with pytest.raises(InvalidArgumentException):
        await git.dangerously_authenticate("ada", "")


async def test_a_password_or_a_branch_that_is_missing_is_reported_as_such_asynchronously(remote: AsyncSandbox) -> None:
    git = remote.git
    with pytest.raises(GitAuthException):
        await git.clone(ASKING, "asked")
    await git.init("lone-too", initial_branch="main")
    await git.commit("lone-too", "one", allow_empty=True)
    await git.remote_add("lone-too", "asking", ASKING, overwrite=True)
    with pytest.raises(GitAuthException):
        await git.push("lone-too", "asking", "main")
    with pytest.raises(GitAuthException):
        await git.pull("lone-too", "asking", "main")
    await git.remote_add("lone-too", "origin", FAR, overwrite=True)
    with pytest.raises(GitUpstreamException):
        await git.push("lone-too", "origin", set_upstream=False)
    with pytest.raises(GitUpstreamException):
        await git.pull("lone-too")
