"""The manual page hotdesk(1), generated from the tree of commands. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hotdesk import __version__
from hotdesk.cli import ABOUT, GROUPS
from hotdesk.cli.command_tree import CommandNode, CommandOption

_ENDING = r"""
.SH EXIT STATUS
.TP
124
the time limit was reached
.TP
125
hotdesk failed
.TP
126, 127
the command could not start, or was not found
.TP
128+n
signal n ended the command
.PP
Otherwise run and exec return the exit code of the command at the desk, and every other command returns 0.
.SH FILES
.TP
/etc/hotdesk/config.toml
settings
.TP
/var/lib/hotdesk
images, disks, the drive, the vault and the journal
.TP
/run/hotdesk
live state
.SH ENVIRONMENT
.TP
HOTDESK_HOME
a folder for settings and state, instead of the folders above
.TP
HOTDESK_DEBUG
set to 1: show tracebacks
"""


def write_manpage(commands: Sequence[CommandNode]) -> str:
    nodes = {node.name: node for node in commands}
    lines = [
        r".\" Written by `hotdesk completion man`.",
        f'.TH HOTDESK 1 "" "hotdesk {_escape(__version__)}" "User Commands"',
        ".SH NAME",
        r"hotdesk \- disposable, sealed Linux desks for AI workers",
        ".SH SYNOPSIS",
        r".B hotdesk",
        r".I COMMAND",
        "[OPTIONS]",
        ".SH DESCRIPTION",
        _escape(ABOUT),
        r"Every command takes \fB\-\-help\fR.",
    ]
    for title, group in GROUPS.items():
        lines.append(f".SH {_escape(title.upper())}")
        for name in group:
            lines += _describe(nodes[name])
    return "\n".join(lines) + _ENDING


def _describe(node: CommandNode) -> list[str]:
    lines = [
        f".SS hotdesk {_escape(node.name)}{''.join(_format_synopsis(node))}",
        *_format_paragraphs(node.description),
    ]
    for option in (*node.arguments, *node.options):
        lines += [".TP", _format_head(option), _escape(option.help)]
    for act in node.acts:
        lines += _describe(act)
    return lines


def _format_synopsis(node: CommandNode) -> Iterable[str]:
    if node.acts:
        yield " ACT"
    if node.options:
        yield " [OPTIONS]"
    for argument in node.arguments:
        text = _escape(argument.metavar) + (" ..." if argument.repeats else "")
        yield f" {text}" if argument.required else f" [{text}]"


def _format_head(option: CommandOption) -> str:
    value = "|".join(option.choices) or option.metavar
    if not option.names:
        return rf"\fI{_escape(value)}\fR"
    names = ", ".join(rf"\fB{_escape(name)}\fR" for name in option.names)
    return rf"{names} \fI{_escape(value)}\fR" if option.metavar else names


def _format_paragraphs(text: str) -> list[str]:
    """Format a docstring: indented lines are an example, an empty line starts a paragraph."""
    lines, in_example = [], False
    for line in text.splitlines():
        is_example = line.startswith("  ") or (in_example and not line)
        if is_example != in_example:
            lines.append(".EX" if is_example else ".EE")
        in_example = is_example
        lines.append(_escape(line) if line else ("" if in_example else ".PP"))
    return [*lines, ".EE"] if in_example else lines


def _escape(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
