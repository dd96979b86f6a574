"""Checks whether this process may use kernel keyrings, which some container engines' filters refuse."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache

from hotdesk.linux.libc import libc

_SYS_KEYCTL = {"aarch64": 219, "x86_64": 250}
_GET_KEYRING_ID, _SESSION_KEYRING = 0, -3


@cache
def is_refused() -> bool:
    """Return whether keyctl(2) is refused to this process and its children. Changes nothing."""
    call = _SYS_KEYCTL.get(os.uname().machine)
    if call is None:
        return False
    arguments = (ctypes.c_int(_GET_KEYRING_ID), ctypes.c_int(_SESSION_KEYRING), ctypes.c_int(0))
    return libc.syscall(call, *arguments) < 0 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)
