"""Storage that outlives desks: the journal, files by name and version, certificates.

The journal: `journal.py` writes events to one SQLite file. `chain.py` defines how each event is hashed onto the one
before and how a head is written, `signing.py` signs heads, and `journal_audit.py` verifies a file or reports each
fault. The holder of the signing key can write another history, but a head that is stored elsewhere reveals that.

Memory: `memory.py` has what workers leave for later jobs, `memory_origin.py` its origin.

Files: `keep.py` stores files; `blobs.py` has their bytes by hash, `catalog.py` their names, versions and owners.
`names.py` defines valid names, `identity.py` who may read a file, and `legacy.py` migrates the drives of earlier
releases.
"""
