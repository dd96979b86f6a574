"""`hotdesk run`: a desk of the resident holder for one connection, or without a holder a desk of this process."""

from __future__ import annotations

import _socket
import os

from hotdesk.cli.quick.arguments import QuickRun
from hotdesk.cli.quick.call import ask, dial, read_answer
from hotdesk.cli.quick.place import IDENTITY, Place, get_socket_path, name_holder, read_settings
from hotdesk.cli.quick.signals import EndingSignals, Interrupted
from hotdesk.cli.quick.streams import has_standard_streams
from hotdesk_guest import wire


def run(order: QuickRun, *, may_hold: bool) -> int | None:
    """Run a command on a fresh desk; return `None` if that is not possible this way, before anything was done."""
    place = Place()
    if not place.is_known or not has_standard_streams():
        return None
    signals = EndingSignals()
    try:
        code = _run(place, order, signals, may_hold)
        if code is None:
            signals.close()
        return code
    except Interrupted as e:
        return 128 + e.number


def _run(place: Place, order: QuickRun, signals: EndingSignals, may_hold: bool) -> int | None:
    try:
        settings = read_settings(place)
    except OSError:
        return None
    name = name_holder(settings)
    sock = dial(get_socket_path(place, name)) if may_hold else None
    found = None if sock is None else _lease(sock, name, order, signals)
    if found is not None:
        from hotdesk.cli.quick.run_follow import follow_lease

        return follow_lease(*found, signals, order)

    def start_holder() -> None:
        if may_hold and sock is None and (b"holder" not in settings or _is_holder_allowed()):
            from hotdesk.cli.quick.start import start

            start(place, name, later=True)

    from hotdesk.cli.quick import run_without_holder

    code = run_without_holder.run(order, signals, start_holder)
    if code is None:
        start_holder()
    return code


def _is_holder_allowed() -> bool:
    from hotdesk import config

    return config.load().holder


def _lease(
    sock: _socket.socket, name: str, order: QuickRun, signals: EndingSignals
) -> tuple[_socket.socket, bytes] | None:
    """Turn a connection into the lease of a desk; return `None` if the listener is not this holder or refuses."""
    variables = {each: value for each in IDENTITY if (value := os.environ.get(each))}
    answer = None
    try:
        if ask(sock, "/leases", wire.encode({"argv": order.own, "variables": variables})):
            import hotdesk.cli.quick.run_follow  # noqa: F401  imported while the desk is opened

            answer = read_answer(sock, signals)
    except Interrupted:
        from hotdesk.cli.quick.run_follow import wait_burnt

        wait_burnt(sock)
        raise
    if answer is None or answer[0].get("holder") != name:
        sock.close()
        return None
    return sock, answer[1]
