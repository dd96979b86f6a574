"""Entry point of a holder: starts its keeper first, then imports what every command needs."""

from __future__ import annotations

import os
import sys

from hotdesk.cli.quick.place import Place, name_holder, read_settings
from hotdesk.cli.quick.start import LOCK
from hotdesk.ipc.title import set_title


def main() -> None:
    """Run the holder whose lock this process inherited."""
    set_title(__name__)
    os.set_inheritable(LOCK, False)  # the lock lasts as long as this process, not its keeper
    name = sys.argv[2]
    if name != name_holder(read_settings(Place())):
        return  # settings or code have changed meanwhile
    from hotdesk.cli import prestart

    prestart.begin()
    from hotdesk.cli.holder import service  # imported while its keeper starts

    service.main(name)
