"""The process that alone opens the vault and writes the journal.

How it works: the keeper starts it (`process.py`) and hands it lines: two from the owner, one from each door. The line
says who speaks. The owner gives it scopes, and it makes of each a charter (`charter.py`): rules, a certificate
authority and the values of the grants, for the door alone; the owner gets the certificate and the placeholders. What
door and owner tell, it numbers, chains, signs and commits; what was seen of a deliverable it signs if its journal says
that it was seen (`certify.py`). Programs that print a token are run by a child (`token_command.py`) that was started
before it shut itself in. `client.py` is the owner's end.
"""
