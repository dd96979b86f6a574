"""Finds which methods of E2B's classes the tests call, by the inferred type of the expression before each dot."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from operator import or_
from types import ModuleType, UnionType
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Use:
    """Use of a method or property in a test."""

    kind: type
    name: str
    failing: bool
    """Whether the test expects it to raise."""


def uses(module: str) -> Iterator[Use]:
    found = import_module(module)
    for node in ast.parse(inspect.getsource(found)).body:
        if isinstance(node, Function):
            yield from Reader(found, node).read()


@dataclass
class Reader:
    """Reads one function, statement by statement."""

    module: ModuleType
    function: Function
    names: dict[str, Any] = field(default_factory=dict)
    """Inferred types of its variables."""
    found: list[Use] = field(default_factory=list)

    def read(self) -> list[Use]:
        self.names = {each.arg: self.named(each.annotation) for each in self.function.args.args}
        acts = [first(hint) for hint in self.names.values() if typing.get_origin(hint) is Callable]
        for decorator in self.function.decorator_list:
            for each in ast.walk(decorator):
                if isinstance(each, ast.Lambda) and acts:
                    self.lambdas(each, acts[0])
        self.block(self.function.body, failing=False)
        return self.found

    def lambdas(self, node: ast.Lambda, kind: Any) -> None:
        self.names |= {each.arg: kind for each in node.args.args}
        self.look(node.body, failing=False)

    def block(self, body: list[ast.stmt], *, failing: bool) -> None:
        for node in body:
            self.statement(node, failing=failing)

    def statement(self, node: ast.stmt, *, failing: bool) -> None:
        if isinstance(node, Function):
            self.names |= {each.arg: self.named(each.annotation) for each in node.args.args}
            self.names[node.name] = node
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self.look(item.context_expr, failing=failing)
                self.bind(item.optional_vars, entered(self.kind(item.context_expr)))
                failing = failing or is_raises(item.context_expr)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self.look(node.iter, failing=failing)
            self.bind(node.target, first(self.kind(node.iter)))
        elif isinstance(node, ast.AnnAssign):
            self.bind(node.target, self.named(node.annotation))
        elif isinstance(node, ast.Assign):
            self.look(node.value, failing=failing)
            self.bind(node.targets[0], self.kind(node.value), node.value)
        else:
            for each in ast.iter_child_nodes(node):
                if isinstance(each, ast.expr):
                    self.look(each, failing=failing)
        for part in ("body", "orelse", "finalbody"):
            self.block(getattr(node, part, []), failing=failing)

    def bind(self, target: ast.expr | None, kind: Any, value: ast.expr | None = None) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = kind
        elif isinstance(target, ast.Tuple):
            parts = value.elts if isinstance(value, ast.Tuple) else []
            for number, each in enumerate(target.elts):
                self.bind(each, self.kind(parts[number]) if parts else first(kind))

    def look(self, node: ast.expr, *, failing: bool) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.comprehension):
                self.bind(each.target, first(self.kind(each.iter)))
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute):
                for kind in kinds(self.kind(each.value)):
                    self.found.append(Use(kind, each.attr, failing))

    def kind(self, node: ast.expr | None) -> Any:
        """Return the type of an expression as a hint; None if it is unknown."""
        match node:
            case ast.Name(id):
                known = self.names.get(id, getattr(self.module, id, None))
                return type[known] if isinstance(known, type) and id not in self.names else known
            case ast.Await(value):
                return self.kind(value)
            case ast.Tuple(elts) | ast.List(elts) if elts:
                return list[self.kind(elts[0])]  # type: ignore[misc]
            case ast.Subscript(value, _):
                return first(self.kind(value))
            case ast.Attribute(value, attr):
                return of_member(self.kind(value), attr)
            case ast.Call(ast.Name(id), _, _) if inspect.isfunction(known := getattr(self.module, id, None)):
                return hints_of(known).get("return")
            case ast.Call(func, _, _):
                return given(self.kind(func))
        return None

    def named(self, node: ast.expr | None) -> Any:
        with suppress(NameError):
            return eval(ast.unparse(node), vars(self.module)) if node else None  # noqa: S307 - a test's own annotation
        return None


@dataclass(frozen=True)
class Method:
    """A method, with the type that it returns."""

    gives: Any


def of_member(hint: Any, name: str) -> Any:
    for kind in kinds(hint):
        member = inspect.getattr_static(kind, name, None)
        if isinstance(member, property):
            return hints_of(member.fget).get("return")
        if (field := hints_of(kind).get(name)) is not None:
            return field
        function = getattr(member, "__func__", getattr(member, "method", member))
        if inspect.isfunction(function):
            gives = {hints_of(each).get("return") for each in typing.get_overloads(function) or [function]} - {None}
            return Method(any_of(kind if each is typing.Self else each for each in gives))
    return None


def any_of(hints: Iterable[Any]) -> Any:
    found = list(hints)
    return reduce(or_, found) if found else None


def given(hint: Any) -> Any:
    return hint.gives if isinstance(hint, Method) else first(hint) if typing.get_origin(hint) is type else None


def kinds(hint: Any) -> Iterator[type]:
    if typing.get_origin(hint) in (typing.Union, UnionType):
        for each in typing.get_args(hint):
            yield from kinds(each)
    elif typing.get_origin(hint) is type:
        yield from kinds(first(hint))
    elif isinstance(found := typing.get_origin(hint) or hint, type):
        yield found


def first(hint: Any) -> Any:
    """Return the first type argument: of a list's items, an iterator's items, a callable's first argument."""
    found = typing.get_args(hint)
    while found and isinstance(found[0], list):
        found = tuple(found[0])
    return found[0] if found else None


def entered(hint: Any) -> Any:
    return first(hint) if typing.get_origin(hint) is not None else hint


def is_raises(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises"


def hints_of(function: Any) -> dict[str, Any]:
    with suppress(NameError, TypeError, AttributeError):
        return typing.get_type_hints(inspect.unwrap(function))
    return {}
