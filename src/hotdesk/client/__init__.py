"""A server's desks, jobs, approvals, drive and vault, from anywhere: the same words as the library.

async with Client("http://127.0.0.1:3700", key) as client:
    async with client.open_desk() as desk:
        print((await desk.run(["uname", "-a"])).text)

How it works: `http.py` speaks HTTP/1.1 over TCP, TLS or a unix socket; `data.py` is what a server tells; `desk.py`,
`vault.py` and `client.py` are the verbs. Errors are the library's own, by the code a server answers with.
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
