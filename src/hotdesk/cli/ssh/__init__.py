"""An SSH server on the host's side of one desk's link, for the OpenSSH client of a permitted user.

`hotdesk ssh --stdio ID` is a ProxyCommand: it speaks SSH on its standard streams (`stdio.py`), so there is no daemon
and no listening socket, on the host or in the desk. The protocol requires encryption and a host key; access control is
that of the owner's socket, as for `hotdesk exec`. `transport.py` has packets and keys, `connection.py` users and
channels, `session.py` programs, `forwarding.py` ports; `sftp_replies.py` checks the replies of `inside/sftp_server.py`,
which runs in the desk. Design: `docs/design/028-ssh.md`.

Modules on the way to a prompt do not import asyncio, `re` or `socket`: Python's start is most of that time.
"""
