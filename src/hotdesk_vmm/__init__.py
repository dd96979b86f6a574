"""Run a desk's virtual machine: the first process of the container around it, and its parts.

Standard library only.

The keeper's wall (`hotdesk/desk/wall/microvm/`) starts `supervisor.py` with a task in a file. It starts the machine
emulator (`qemu.py`), boots it with an initial file system (`initrd.py`) or loads a template, and carries connections.
It has no privilege: an attacker who takes over the emulator or the supervisor is an unprivileged user in a container.
"""
