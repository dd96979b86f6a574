"""The keys process: the only one that opens the vault and writes the journal.

How it works: the keeper starts it (`process.py`) and hands it connections: two from the owner, one from each door. The
connection identifies the sender. The owner sends scopes, and the process makes a charter of each (`charter.py`): rules,
a certificate authority and the values of the grants, for the door alone; the owner gets the certificate and the
placeholders. Events from doors and the owner are numbered, chained, signed and committed. The evidence of a deliverable
is signed if the journal confirms it (`certify.py`). Programs that print a token are run by a child (`token_command.py`)
that was started before this process confined itself. `client.py` is the owner's end.
"""
