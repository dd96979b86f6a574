"""Runs a desk's virtual machine: the first process of the container around it, and what it needs.

Standard library only.

`supervisor.py` is started by the keeper's wall (`hotdesk/desk/wall/microvm/`) with a task in a file; it starts the
machine emulator (`qemu.py`), boots it with an initial file system of its own (`initrd.py`) or from a template, and
carries connections. It has no privilege: whoever takes over the emulator, or this, is in a desk's container as no one.
"""
