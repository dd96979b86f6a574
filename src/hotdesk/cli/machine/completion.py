"""`hotdesk completion`: print completions for a shell, or the manual page."""

from __future__ import annotations

import argparse

from hotdesk.cli.command_tree import read_commands
from hotdesk.cli.manpage import write_manpage
from hotdesk.cli.shells import write_bash, write_fish, write_zsh

WRITERS = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish, "man": write_manpage}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(WRITERS), help="the shell; `man` prints the manual page")


def main(arguments: argparse.Namespace) -> int:
    """Print completions for a shell, or the manual page. The wheel has both, too, below `share`.

    For example:

      hotdesk completion bash | sudo tee /etc/bash_completion.d/hotdesk
      hotdesk completion zsh > ~/.zfunc/_hotdesk
      hotdesk completion fish > ~/.config/fish/completions/hotdesk.fish
      hotdesk completion man | man -l -
    """
    print(WRITERS[arguments.shell](read_commands()), end="")
    return 0
