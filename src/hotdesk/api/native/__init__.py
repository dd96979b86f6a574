"""The native API: desks, jobs, approvals, drive, vault, journal, as REST described by OpenAPI at `/api/openapi.json`.

`app.py` combines one router per resource; `access/auth.py` identifies the caller and its tenant; `problems.py` formats
errors; `context.py` holds the state that requests share. Jobs are processes of their own (`api/launch/`); their state
is computed from the tenant's journal, which is read once and then incrementally (`jobs/ledger.py`).
"""
