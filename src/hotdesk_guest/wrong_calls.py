"""A seccomp filter for the guest for root and its programs, against system calls that a sentry gets wrong.

The desk's other programs get the same filter from the desk's configuration (`wall/gvisor/bundle.py`, which has the
reasons); a process that joins a running desk does not.
"""

import array
import posix

_LOAD, _AND, _EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_CALL, _FIRST, _SECOND = 0, 16, 24
"""Offsets of the call's number, and of the low halves of two arguments, in a filter's input."""
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_SOCKET, _CLOSE_RANGE = {"x86_64": 41, "aarch64": 198}, 436
_INET, _INET6, _PACKET, _RAW = 2, 10, 17, 3
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2


def build_filter(machine: str) -> bytes:
    """Return the filter's instructions: operation, jump if true, jump if false, value."""
    rows = (
        (_LOAD, 0, 0, _CALL),
        (_EQUAL, 9, 0, _CLOSE_RANGE),
        (_EQUAL, 0, 9, _SOCKET[machine]),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 5, 0, _PACKET),
        (_EQUAL, 1, 0, _INET),
        (_EQUAL, 0, 5, _INET6),
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, 0xF),
        (_EQUAL, 0, 2, _RAW),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        (_RETURN, 0, 0, _ALLOW),
    )
    return b"".join(
        code.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little") for code, yes, no, value in rows
    )


def refuse() -> bool:
    """Install the filter, also for every later program; return whether that succeeded."""
    try:
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        code = array.array("B", build_filter(posix.uname().machine))
        program = array.array("Q", (len(code) // 8, code.buffer_info()[0])).tobytes()
        failed: int = _ctypes.call_function(prctl, (_NO_NEW_PRIVS, 1, 0, 0, 0))
        return not failed and _ctypes.call_function(prctl, (_SET_SECCOMP, _FILTER, program)) == 0
    except (ImportError, KeyError, OSError):
        return False  # an image without ctypes: root can then crash its own desk
