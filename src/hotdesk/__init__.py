"""A real computer for an AI worker: opened in milliseconds, sealed behind one door, burnt when the job is done.

async with hotdesk.open_desk() as desk:
    done = await desk.run(["python3", "-c", "print(6 * 7)"])
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # importing typing would cost every keeper 10 ms
if TYPE_CHECKING:
    from hotdesk import blocking as blocking
    from hotdesk.client import Client as Client
    from hotdesk.desk.seam import Change as Change
    from hotdesk.desk.seam import Desk as Desk
    from hotdesk.desk.seam import Done as Done
    from hotdesk.desk.seam import Entry as Entry
    from hotdesk.desk.seam import Size as Size
    from hotdesk.desk.seam import Spec as Spec
    from hotdesk.desk.seam import Usage as Usage
    from hotdesk.errors import HotdeskError as HotdeskError
    from hotdesk.host import Host as Host
    from hotdesk.host import open_desk as open_desk
    from hotdesk.swarm.api import swarm as swarm

__version__ = "0.1.0"
PUBLIC = {
    "Change": "hotdesk.desk.seam",
    "Client": "hotdesk.client",
    "Desk": "hotdesk.desk.seam",
    "Done": "hotdesk.desk.seam",
    "Entry": "hotdesk.desk.seam",
    "Host": "hotdesk.host",
    "HotdeskError": "hotdesk.errors",
    "Size": "hotdesk.desk.seam",
    "Spec": "hotdesk.desk.seam",
    "Usage": "hotdesk.desk.seam",
    "open_desk": "hotdesk.host",
}
__all__ = [
    "Change", "Client", "Desk", "Done", "Entry", "Host", "HotdeskError", "Size", "Spec", "Usage", "blocking",
    "open_desk", "swarm",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name in ("blocking", "swarm"):
        return import_module(f"hotdesk.{name}")
    if name not in PUBLIC:
        raise AttributeError(f"module 'hotdesk' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)
