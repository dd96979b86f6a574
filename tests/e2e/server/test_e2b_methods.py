"""Tests that every public method of E2B's SDKs is called in a test of this folder, and seen to fail where it can."""

from __future__ import annotations

import inspect
from enum import Enum
from functools import cache
from pathlib import Path
from typing import is_typeddict

import e2b
import e2b_code_interpreter as code
import e2b_desktop as desktop
import pytest
from e2b import (
    AsyncCommandHandle,
    AsyncCommandInputHandle,
    AsyncSandbox,
    AsyncSandboxPaginator,
    AsyncSecret,
    AsyncSnapshotPaginator,
    AsyncTemplate,
    AsyncVolume,
    AsyncWatchHandle,
    CommandHandle,
    Git,
    Sandbox,
    SandboxPaginator,
    Secret,
    SnapshotPaginator,
    Template,
    Volume,
    WatchHandle,
)
from e2b.sandbox.utils import class_method_variant
from e2b.sandbox_async.commands.command import Commands as AsyncCommands
from e2b.sandbox_async.commands.pty import Pty as AsyncPty
from e2b.sandbox_async.filesystem.filesystem import Filesystem as AsyncFilesystem
from e2b.sandbox_async.git import Git as AsyncGit
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from e2b.secret.secret_async import AsyncSecretPaginator
from e2b.secret.secret_sync import SecretPaginator
from e2b.template.main import TemplateBase, TemplateBuilder
from e2b.volume.utils import DualMethod
from e2b_code_interpreter.models import Context, Execution, ExecutionError, Logs, OutputMessage, Result
from e2b_desktop.main import _VNCServer as Stream

from tests.e2e.server.calls import Use, uses

HERE = Path(__file__).parent
KINDS = [
    Sandbox, Commands, CommandHandle, Pty, Filesystem, WatchHandle, Git, SandboxPaginator, SnapshotPaginator,
    AsyncSandbox, AsyncCommands, AsyncCommandHandle, AsyncCommandInputHandle, AsyncPty, AsyncFilesystem,
    AsyncWatchHandle, AsyncGit, AsyncSandboxPaginator, AsyncSnapshotPaginator,
    code.Sandbox, code.AsyncSandbox, Context, Execution, ExecutionError, Logs, OutputMessage, Result,
    desktop.Sandbox, Stream, Volume, AsyncVolume, Secret, AsyncSecret, SecretPaginator, AsyncSecretPaginator,
    TemplateBase, TemplateBuilder, Template, AsyncTemplate,
]  # fmt: skip


OWN = "it only puts words together; nobody is asked"
ADDRESSES = {
    "download_url": OWN, "get_host": OWN, "get_mcp_url": OWN, "upload_url": OWN,
    "is_running": "that a sandbox ended is its answer",
}  # fmt: skip
BUILT = "it only notes a step, which fails when the template is built"
HANGS_UP = {"disconnect": "it hangs up, whoever was at the other end"}
CANNOT_FAIL: dict[type, dict[str, str]] = {
    Sandbox: ADDRESSES, AsyncSandbox: ADDRESSES, CommandHandle: HANGS_UP, AsyncCommandHandle: HANGS_UP,
    AsyncWatchHandle: {"stop": "it hangs up, whoever was at the other end"},
    Execution: {"to_json": OWN}, ExecutionError: {"to_json": OWN}, Logs: {"to_json": OWN}, Result: {"formats": OWN},
    Stream: {"get_url": OWN},
    TemplateBase: dict.fromkeys((
        "from_alpine_image", "from_arch_image", "from_aws_registry", "from_bun_image", "from_debian_image",
        "from_dockerfile", "from_fedora_image", "from_gcp_registry", "from_node_image", "from_python_image",
        "from_ubuntu_image", "skip_cache", "to_json",
    ), BUILT),
    TemplateBuilder: dict.fromkeys((
        "apt_install", "beta_dev_container_prebuild", "copy", "copy_items", "git_clone",
        "make_dir", "make_symlink", "npm_install", "pip_install", "remove", "rename", "run_cmd", "set_envs",
        "set_ready_cmd", "set_start_cmd", "set_user", "set_workdir", "skip_cache",
    ), BUILT),
}  # fmt: skip
"""Methods without an error of their own, and why."""


PACKAGES = ("e2b", "e2b_code_interpreter", "e2b_desktop")
ASK_NOBODY = {
    "e2b.api.ApiClient": "a connection pool; every other class uses it",
    "e2b.connection_config.ConnectionConfig": "settings",
    "e2b.sandbox.filesystem.filesystem.EntryInfo": "a record",
    "e2b.sandbox.filesystem.filesystem.WriteInfo": "a record",
    "e2b.template.readycmd.ReadyCmd": "a text",
    "e2b.volume.connection_config.VolumeConnectionConfig": "settings",
    "e2b_code_interpreter.models.MIMEType": "a text",
}
"""Classes without any method that makes a request, and why."""


@cache
def used() -> frozenset[Use]:
    files = [*sorted(HERE.glob("test_e2b_*.py")), HERE / "template_program.py"]
    names = [f"tests.e2e.server.{file.stem}" for file in files]
    return frozenset(use for name in names if name != __name__ for use in uses(name))


def touched(kind: type, *, failing: bool) -> set[str]:
    return {
        use.name
        for use in used()
        if use.failing >= failing
        and issubclass(use.kind, kind)
        and inspect.getattr_static(use.kind, use.name, None) is inspect.getattr_static(kind, use.name, use)
    }


def public(kind: type, *, properties: bool) -> set[str]:
    """List the public methods that a class itself defines in the installed SDK."""
    wanted = (classmethod, staticmethod, class_method_variant, DualMethod, *((property,) if properties else ()))
    parents = [each for each in KINDS if each in kind.__mro__[1:]]
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {
        name
        for name, each in found.items()
        if (inspect.isfunction(each) or isinstance(each, wanted))
        and all(inspect.getattr_static(parent, name, None) is not each for parent in parents)
    }


def offered() -> dict[str, type]:
    """Return the classes that the packages export and that have methods of their own; errors and records have none."""
    classes = {
        named(each): each
        for package in (e2b, code, desktop)
        for name, each in vars(package).items()
        if not name.startswith("_") and inspect.isclass(each) and each.__module__.split(".")[0] in PACKAGES
    }
    return {
        name: each
        for name, each in classes.items()
        if not issubclass(each, Exception | Enum) and not is_typeddict(each) and public(each, properties=False)
    }


def named(kind: type) -> str:
    """Return a class's full name; asynchronous classes have the names of the others."""
    return f"{kind.__module__}.{kind.__name__}"


def test_no_class_of_the_packages_is_left_out() -> None:
    assert sorted(offered().keys() - {named(kind) for kind in KINDS}) == sorted(ASK_NOBODY)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_every_public_method_and_property_is_tested(kind: type) -> None:
    assert sorted(public(kind, properties=True) - touched(kind, failing=False)) == []


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_every_public_method_is_seen_to_fail_or_cannot(kind: type) -> None:
    assert sorted(public(kind, properties=False) - touched(kind, failing=True)) == sorted(CANNOT_FAIL.get(kind, {}))
