"""A client of a hotdesk server: desks, jobs, approvals, drive and vault, with the names of the library.

    async with Client("http://127.0.0.1:3700", key) as client:
        async with client.open_desk() as desk:
            print((await desk.run(["uname", "-a"])).text)

How it works: `http.py` speaks HTTP/1.1 over TCP or TLS; `data.py` has the types of responses; `desk.py`, `vault.py` and
`client.py` are the API. Errors are the library's own classes, chosen by the code in the server's response.
"""

from hotdesk.client.client import Client
from hotdesk.client.data import Allowed, Approval, Deliverable, DeskShown, Happened, Job, Kept, SecretShown
from hotdesk.client.desk import FarDesk
from hotdesk.client.vault import FarVault

__all__ = [
    "Allowed",
    "Approval",
    "Client",
    "Deliverable",
    "DeskShown",
    "FarDesk",
    "FarVault",
    "Happened",
    "Job",
    "Kept",
    "SecretShown",
]
