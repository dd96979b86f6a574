"""Our own API: desks, jobs, approvals, drive, vault, journal, as REST described by OpenAPI at `/api/openapi.json`.

How it works: `app.py` puts one router a noun together; `access/auth.py` says who asks and for which tenant;
`problems.py` says what an error looks like; `context.py` holds what requests share. Jobs are processes of their own
(`api/launch/`), and what is known of them is the tenant's journal, folded once and then read on (`jobs/ledger.py`).
"""
