"""Park the guest while the desk's memory is saved: it disconnects, keeps its channels, and reconnects with a token.

A fork of a desk has a copy of its guest. The fork's programs continue, and connect through the same process of the host
as their guest: the process that presents the token is the guest. No program can read the token, because the guest's
memory is not accessible to them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from hotdesk_guest.agent import Guest, GuestChannel
    from hotdesk_guest.ports import GuestPorts

import errno

MIN_TOKEN = 32


def park(guest: Guest, ports: GuestPorts, channel: GuestChannel, token: str) -> None:
    """Answer, then disconnect once everything is written. Events until `rejoin` are sent afterwards."""
    if not guest.is_hidden:
        raise OSError(
            errno.EPERM, "the image's Python lacks ctypes, so programs could read the memory of hotdesk's process"
        )
    if len(token) < MIN_TOKEN:
        raise ValueError("a short token")
    line = guest.line
    line.token = token
    guest.reply(channel, {})
    line.parked = line.leaving = True
    ports.park()
    guest.programs.listen_again()
    line.flush()


def rejoin(guest: Guest, ports: GuestPorts, channel: GuestChannel, same: bool, env: dict[str, str | None]) -> None:
    """Continue with the host that the guest reconnected to: the `same`, or another, which knows of no channel."""
    line = guest.line
    retained, line.retained, line.parked, line.token = line.retained, bytearray(), False, ""
    if same:
        line.out += retained
    else:
        for number in [number for number in guest.channels if number != channel.number]:
            guest.forget(number)
        guest.programs.settle(env)
    guest.reply(channel, {})
    guest.programs.listen_again()
    ports.go_on()
