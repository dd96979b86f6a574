"""`hotdesk exec` through the control socket of the desk's owner."""

from __future__ import annotations

from hotdesk.cli.quick.arguments import QuickExec
from hotdesk.cli.quick.call import dial, upgrade
from hotdesk.cli.quick.follow import Deaf, Follower
from hotdesk.cli.quick.place import Place
from hotdesk.cli.quick.signals import SIGPIPE, EndingSignals, Interrupted
from hotdesk.cli.quick.streams import FAILED, complain, has_standard_streams
from hotdesk.errors import HotdeskError
from hotdesk.linux.landlock import confine

ID_LENGTH = 21
_OWNER = b'"owner": '


def run(order: QuickExec) -> int | None:
    """Run a command on an open desk; return `None` if its owner cannot be called this way, before anything was done."""
    place = Place()
    owner = find_owner(place, order.desk) if place.is_known and has_standard_streams() else None
    if owner is None:
        return None
    signals = EndingSignals()
    try:
        sock = dial(f"{place.control}/{owner}.sock")
        route = "root" if order.user == "root" else "link"
        answer = None if sock is None else upgrade(sock, signals, f"/desks/{order.desk}/{route}")
        if sock is None or answer is None:
            signals.close()
            return None
    except Interrupted as e:
        return 128 + e.number
    confine([])
    return follow(Follower(sock, answer[1], signals), order)


def follow(follower: Follower, order: QuickExec) -> int:
    """Follow the command; on an interruption, kill it with all its descendants."""
    ask: dict[str, object] = {"op": "exec", "argv": order.command, "stdin": True, "tell": True}
    ask |= {name: value for name, value in (("env", order.env), ("cwd", order.cwd)) if value}
    if order.timeout is not None:
        ask["timeout"] = int(order.timeout * 1000)
    try:
        return follower.run(ask, order.timeout)
    except Interrupted as e:
        follower.kill()
        return 128 + e.number
    except Deaf:
        follower.kill()
        return 128 + SIGPIPE
    except HotdeskError as e:
        follower.kill()
        complain(str(e))
        return FAILED


def find_owner(place: Place, desk: str) -> int | None:
    """Return the process id of a desk's owner, or `None`. Only a complete id is accepted."""
    if len(desk) != ID_LENGTH or not (desk.isascii() and desk.isalnum()):
        return None
    try:
        with open(f"{place.run}/desks/{desk}/desk.json", "rb") as file:
            _, found, rest = file.read().partition(_OWNER)
    except OSError:
        return None
    digits = rest[: len(rest) - len(rest.lstrip(b"0123456789"))]
    return int(digits) if found and digits else None
