"""Model providers by name, behind one seam.

A `LanguageModel` (`seam.py`) gets instructions, a history and tools, and returns a `Reply`: its thinking, its text, its
tool calls, and its native items, which are sent back verbatim. `names.py` finds a model by name. A provider's driver
has a wire format (`*_wire.py`: request to body, events to reply, pure) and a client (`client.py`: the provider's
library with retries). Replies of another model are rewritten as plain text (`turns.py`). `record.py` records any model,
`replay.py` repeats a recording; `allowed.py` prevents tests from calling a model that costs money.
"""
