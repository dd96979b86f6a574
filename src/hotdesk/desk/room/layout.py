"""The layout of a desk as its programs see it, the same behind every wall."""

from __future__ import annotations

from collections.abc import Mapping

LINK = "/run/hotdesk"
"""Where a desk sees its keeper-made folder: the guest's code and the socket it dials."""
HOME = "/home/user"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ROOT_HOME = "/root"
SUDO = "usr/local/bin/sudo"


def sudo_program(python: str) -> str:
    """Return the source of `sudo` for a desk that may have root."""
    return (
        f"#!{python} -ISB\n"
        f"import sys\nsys.path.insert(0, {LINK + '/lib'!r})\n"
        f"from hotdesk_guest import sudo\nsudo.main({LINK!r})\n"
    )


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every program in the desk."""
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
    """Return how much of a desk's memory /dev/shm may take."""
    return memory // 2
