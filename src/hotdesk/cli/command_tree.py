"""All commands with their options, read from the parsers, for completions and the manual page."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from hotdesk.cli import COMMANDS, get_module_name
from hotdesk.cli.parser import make_parser
from hotdesk.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option of a command, or a positional argument, which has no names."""

    names: tuple[str, ...]
    metavar: str
    """Placeholder of its value, or `""` if it takes none."""
    choices: tuple[str, ...]
    help: str
    required: bool
    repeats: bool


@dataclass(frozen=True, slots=True)
class CommandNode:
    """A command, or a subcommand of one."""

    name: str
    """Its words after `hotdesk`, such as `image build`."""
    summary: str
    description: str
    options: tuple[CommandOption, ...]
    arguments: tuple[CommandOption, ...]
    acts: tuple[CommandNode, ...] = ()


def read_commands() -> list[CommandNode]:
    return [_read_command(name, summary) for name, summary in COMMANDS.items()]


def _read_command(name: str, summary: str) -> CommandNode:
    module = import_module(get_module_name(name))
    return _read_parser(name, summary, make_parser(name, module), _get_docstring(module))


def _get_docstring(module: ModuleType) -> str:
    return inspect.cleandoc(module.main.__doc__ or "")


def _read_parser(name: str, summary: str, parser: argparse.ArgumentParser, description: str) -> CommandNode:
    options: list[CommandOption] = []
    arguments: list[CommandOption] = []
    acts: list[CommandNode] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            acts = [
                _read_parser(f"{name} {act}", helps.get(act, ""), inner, _describe_act(inner.get_default("main")))
                for act, inner in action.choices.items()
            ]
        elif action.help != argparse.SUPPRESS:
            (options if action.option_strings else arguments).append(_read_action(parser, action))
    return CommandNode(name, summary, description, tuple(options), tuple(arguments), tuple(acts))


def _describe_act(act: Callable[..., object] | None) -> str:
    return inspect.cleandoc(getattr(act, "__doc__", None) or "")


def _read_action(parser: argparse.ArgumentParser, action: argparse.Action) -> CommandOption:
    formatter = parser._get_formatter()
    takes_value = action.nargs != 0
    default = action.dest if not action.option_strings else action.dest.upper()
    metavar = action.metavar if isinstance(action.metavar, str) else default
    return CommandOption(
        names=tuple(action.option_strings),
        metavar=metavar if takes_value else "",
        choices=tuple(map(str, action.choices or ())),
        help=formatter._expand_help(action) if action.help else "",
        required=action.required,
        repeats=isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+"),
    )
