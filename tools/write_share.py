"""Write completions and the manual page to `packaging/share/`; `packaging/build_hook.py` puts them into packages."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from hotdesk.cli.command_tree import read_commands
from hotdesk.cli.machine.completion import WRITERS

SHARE = Path(__file__).parents[1] / "packaging/share"
PLACES = {
    "bash": "bash-completion/completions/hotdesk",
    "zsh": "zsh/site-functions/_hotdesk",
    "fish": "fish/vendor_completions.d/hotdesk.fish",
    "man": "man/man1/hotdesk.1",
}


def write_share(share: Path) -> list[Path]:
    """Write every file; return their paths."""
    shutil.rmtree(share, ignore_errors=True)
    commands, paths = read_commands(), []
    for name, place in PLACES.items():
        path = share / place
        path.parent.mkdir(parents=True)
        path.write_text(WRITERS[name](commands))
        paths.append(path)
    return paths


if __name__ == "__main__":
    for written in write_share(Path(sys.argv[1]) if sys.argv[1:] else SHARE):
        print(written)
