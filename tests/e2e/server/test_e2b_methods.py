"""Every public method of the SDK's parts that speak to envd is called in a test of this folder."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from e2b import AsyncCommandHandle, AsyncSandbox, AsyncWatchHandle, CommandHandle, Sandbox, WatchHandle
from e2b.sandbox_async.commands.command import Commands as AsyncCommands
from e2b.sandbox_async.commands.command_input_handle import AsyncCommandInputHandle
from e2b.sandbox_async.commands.pty import Pty as AsyncPty
from e2b.sandbox_async.filesystem.filesystem import Filesystem as AsyncFilesystem
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem

HERE = Path(__file__).parent
FILES = ("commands", "pty", "files", "watch")
SYNC = {
    Commands: ("commands",), CommandHandle: ("handle", "again", "one", "terminal", "other"), Pty: ("pty",),
    Filesystem: ("files",), WatchHandle: ("watch", "deep", "shallow"),
}  # fmt: skip
ASYNC = {
    AsyncCommands: ("commands",), AsyncCommandHandle: ("handle", "other", "sleeping", "terminal"), AsyncPty: ("pty",),
    AsyncFilesystem: ("files",), AsyncWatchHandle: ("watch",), AsyncCommandInputHandle: ("given",),
}  # fmt: skip
ADDRESSES = ("download_url", "upload_url")


def called(kind: type[ast.FunctionDef] | type[ast.AsyncFunctionDef]) -> set[tuple[str, str]]:
    """List what tests of one kind call, as the last name before the dot and the one after it."""
    found: set[tuple[str, str]] = set()
    for name in FILES:
        for test in ast.walk(ast.parse((HERE / f"test_e2b_{name}.py").read_text())):
            if isinstance(test, kind) and test.name.startswith("test_"):
                found |= {pair for node in ast.walk(test) if (pair := reached(node)) is not None}
    return found


def reached(node: ast.AST) -> tuple[str, str] | None:
    """Give the names around the last dot of an expression."""
    if not isinstance(node, ast.Attribute):
        return None
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    before = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    before = "again" if isinstance(value, ast.Call) else before
    return before, node.attr


def public(kind: type) -> list[str]:
    """List the public methods of a class, as the SDK has them today."""
    return sorted(name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_"))


@pytest.mark.parametrize("kind", list(SYNC), ids=lambda kind: kind.__name__)
def test_every_public_method_is_tested(kind: type) -> None:
    seen = called(ast.FunctionDef)
    assert [name for name in public(kind) if not any((where, name) in seen for where in SYNC[kind])] == []


@pytest.mark.parametrize("kind", list(ASYNC), ids=lambda kind: kind.__name__)
def test_every_public_asynchronous_method_is_tested(kind: type) -> None:
    seen = called(ast.AsyncFunctionDef)
    assert [name for name in public(kind) if not any((where, name) in seen for where in ASYNC[kind])] == []


def test_signed_addresses_are_tested() -> None:
    seen = {name for _, name in called(ast.FunctionDef)}
    assert all(hasattr(kind, name) and name in seen for name in ADDRESSES for kind in (Sandbox, AsyncSandbox))
