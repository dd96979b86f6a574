"""Model providers by name, behind one seam.

How it works: a `LanguageModel` (`seam.py`) is given instructions, a history and tools, and gives a `Reply`: its
thought, its words, the tools it wants used, and its own items verbatim, to be sent back as they are. `names.py` finds
one by name. A provider's driver is a form (`*_wire.py`: request to body, events to reply, pure) and a client
(`client.py`: its own library, with patience). Whatever another model said before is told in plain words (`turns.py`).
`record.py` writes any model down, `replay.py` says it again; `allowed.py` keeps tests from asking anybody who costs
money.
"""
