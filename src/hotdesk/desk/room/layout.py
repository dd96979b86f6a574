"""The layout of a desk as its programs see it, the same behind every wall."""

from __future__ import annotations

from collections.abc import Mapping

LINK = "/run/hotdesk"
"""Where a desk sees the folder its keeper made: the guest's code and the socket it connects to."""
HOME = "/home/user"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ROOT_HOME = "/root"
SUDO = "usr/local/bin/sudo"
SUDO_INSIDE = "/run/sudo.sock"
"""Where the guest for root listens in a desk whose programs cannot pass descriptors to a socket of the host."""


def format_sudo_program(python: str, inside: bool = False) -> str:
    """Return the source of `sudo` for a desk with root. With `inside`, the guest for root listens in the desk."""
    arguments = f"{LINK!r}, {SUDO_INSIDE!r}" if inside else repr(LINK)
    return (
        f"#!{python} -ISB\n"
        f"import sys\nsys.path.insert(0, {LINK + '/lib'!r})\n"
        f"from hotdesk_guest import sudo\nsudo.main({arguments})\n"
    )


def build_environment(extra: Mapping[str, str]) -> dict[str, str]:
    standard = {
        "PATH": PATH,
        "HOME": HOME,
        "USER": "user",
        "LOGNAME": "user",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
    }
    return {**standard, **extra}


def compute_shm_size(memory: int) -> int:
    return memory // 2
