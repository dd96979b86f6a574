"""Storage that outlives desks: the journal, files by name and version, certificates.

How it works: `journal.py` keeps events in one SQLite file, `chain.py` says how each is tied to the one before and how
a head is written, `signing.py` signs heads, `audit.py` proves a file whole or names what was done to it. Whoever holds
the signing key can write another history; whoever keeps a head elsewhere notices.
`memory.py` has what workers leave for later jobs, `memory_origin.py` where that comes from.
`keep.py` keeps files: `blobs.py` has their bytes by hash, `catalog.py` their names, versions and owners; `names.py`
says what a name is, `identity.py` who may read it, `legacy.py` takes over what earlier releases kept.
"""
