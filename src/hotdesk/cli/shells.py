"""Completions for bash, zsh and fish, generated from the tree of commands. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hotdesk.cli.command_tree import CommandNode, CommandOption

GLOBAL = ("--help", "--version")
NOTE = "# Completions for hotdesk; `hotdesk completion {}` writes them."


def _list_option_names(options: Iterable[CommandOption]) -> list[str]:
    return [name for option in options for name in option.names]


def _list_words(node: CommandNode) -> list[str]:
    return [word for argument in node.arguments for word in argument.choices]


def _iterate_nodes(commands: Iterable[CommandNode]) -> Iterable[CommandNode]:
    for command in commands:
        yield command
        yield from command.acts


# -- bash --------------------------------------------------------------------------------------------------------------

_BASH = """{note}
_hotdesk() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= act= words= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      --) return ;;
      -*) ;;
      *) if [[ -z $command ]]; then command=${{COMP_WORDS[i]}}; elif [[ -z $act ]]; then act=${{COMP_WORDS[i]}}; fi ;;
    esac
  done
  case "$command" in {with_acts}) ;; *) act= ;; esac
  case "$command${{act:+ $act}} $prev" in
{values}
  esac
  if [[ -z $words ]]; then
    case "$command${{act:+ $act}}" in
{cases}
    esac
    [[ $cur == -* || -z $command || $words != -* ]] || return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}}
complete -o default -F _hotdesk hotdesk
"""


def write_bash(commands: Sequence[CommandNode]) -> str:
    cases = [f"      '') words='{' '.join((*(each.name for each in commands), *GLOBAL))}' ;;"]
    values = []
    for node in _iterate_nodes(commands):
        acts = [each.name.split()[1] for each in node.acts]
        cases.append(
            f"      '{node.name}') "
            f"words='{' '.join((*acts, *_list_words(node), *_list_option_names(node.options)))}' ;;"
        )
        for option in (each for each in node.options if each.metavar):
            patterns = "|".join(f"'{node.name} {name}'" for name in option.names)
            chosen = f"words='{' '.join(option.choices)}'" if option.choices else "return"
            values.append(f"    {patterns}) {chosen} ;;")
    with_acts = "|".join(each.name for each in commands if each.acts)
    return _BASH.format(note=NOTE.format("bash"), with_acts=with_acts, values="\n".join(values), cases="\n".join(cases))


# -- zsh ---------------------------------------------------------------------------------------------------------------


def write_zsh(commands: Sequence[CommandNode]) -> str:
    lines = [
        "#compdef hotdesk",
        NOTE.format("zsh"),
        "",
        "_hotdesk() {",
        "  local -a names",
        "  if (( CURRENT == 2 )); then",
    ]
    lines += _format_zsh_names("    ", ((each.name, each.summary) for each in commands))
    lines += [
        "    _describe command names",
        "    _arguments '--help[show help]' '--version[print the version]'",
        "    return",
    ]
    lines += ["  fi", "  shift words; (( CURRENT-- ))", "  case $words[1] in"]
    for command in commands:
        lines.append(f"    {command.name})")
        if command.acts:
            lines += ["      if (( CURRENT == 2 )); then"]
            lines += _format_zsh_names("        ", ((each.name.split()[1], each.summary) for each in command.acts))
            lines += [
                "        _describe act names",
                *_format_zsh_arguments("        ", command),
                "        return",
                "      fi",
            ]
            lines += ["      shift words; (( CURRENT-- ))", "      case $words[1] in"]
            for act in command.acts:
                lines += [f"        {act.name.split()[1]})", *_format_zsh_arguments("          ", act), "          ;;"]
            lines += ["      esac"]
        else:
            lines += _format_zsh_arguments("      ", command)
        lines.append("      ;;")
    return "\n".join([*lines, "  esac", "}", "", '_hotdesk "$@"', ""])


def _format_zsh_names(indent: str, names: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{indent}names=(", *(f"{indent}  {_quote(f'{name}:{text}')}" for name, text in names), f"{indent})"]


def _format_zsh_arguments(indent: str, node: CommandNode) -> list[str]:
    specs = [_quote(_format_zsh_option(option, name)) for option in node.options for name in option.names]
    rest = f"'1:word:({' '.join(words)})'" if (words := _list_words(node)) else "'*:file:_files'"
    return [f"{indent}_arguments \\", *(f"{indent}  {spec} \\" for spec in specs), f"{indent}  {rest}"]


def _format_zsh_option(option: CommandOption, name: str) -> str:
    text = "".join(f"\\{c}" if c in "[]:\\" else c for c in option.help)
    value = f" ({' '.join(option.choices)})" if option.choices else "_files" if _is_path(option) else " "
    metavar = option.metavar.replace(":", "\\:")
    return f"{'*' if option.repeats else ''}{name}[{text}]{f':{metavar}:{value.strip()}' if option.metavar else ''}"


def _is_path(option: CommandOption) -> bool:
    return any(word in option.metavar for word in ("FILE", "PATH", "FOLDER", "DIR"))


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -- fish --------------------------------------------------------------------------------------------------------------


def write_fish(commands: Sequence[CommandNode]) -> str:
    lines = [NOTE.format("fish"), "complete -c hotdesk -n __fish_use_subcommand -l help -d 'show help'"]
    lines.append("complete -c hotdesk -n __fish_use_subcommand -l version -d 'print the version'")
    for command in commands:
        lines.append(
            f"complete -c hotdesk -n __fish_use_subcommand -f -a {command.name} -d {_quote_fish(command.summary)}"
        )
    for command in commands:
        condition = f"__fish_seen_subcommand_from {command.name}"
        names = " ".join(act.name.split()[1] for act in command.acts)
        for act in command.acts:
            word = act.name.split()[1]
            first = f"{condition}; and not __fish_seen_subcommand_from {names}"
            lines.append(f"complete -c hotdesk -n '{first}' -f -a {word} -d {_quote_fish(act.summary)}")
            lines += _format_fish_options(f"{condition}; and __fish_seen_subcommand_from {word}", act)
        lines += _format_fish_options(condition, command)
    return "\n".join(lines) + "\n"


def _format_fish_options(condition: str, node: CommandNode) -> list[str]:
    words = " ".join(_list_words(node))
    lines = [f"complete -c hotdesk -n '{condition}' -f -a '{words}'"] if words else []
    for option in node.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        value = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r" if option.metavar else ""
        lines.append(f"complete -c hotdesk -n '{condition}' {names}{value} -d {_quote_fish(option.help)}")
    return lines


def _quote_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
