"""What outlives a desk.

How it works: `journal.py` keeps events in one SQLite file, `chain.py` says how each is tied to the one before and how
a head is written, `signing.py` signs heads, `audit.py` proves a file whole or names what was done to it. Whoever holds
the signing key can write another history; whoever keeps a head elsewhere notices.
`keep.py` keeps deliverables, bytes by hash and names that lead to them. `receipt.py` folds a job's events into a page.
"""
