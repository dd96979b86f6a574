"""An SSH server on the host's side of one desk's link, for the OpenSSH client of a permitted user.

`hotdesk ssh --stdio ID` is a ProxyCommand: it speaks SSH on its standard streams (`stdio.py`), so there is no daemon
and no socket, here or in the desk. Encryption and host key are what the protocol demands; who may connect is decided by
the owner's socket, as for `hotdesk exec`. `transport.py` has packets and keys, `connection.py` users and channels,
`session.py` programs, `forwarding.py` ports; `sftp_replies.py` checks what `inside/sftp_server.py`, which runs in the
desk, answers. Design: `docs/design/028-ssh.md`.

No module here imports asyncio, `re` or `socket`: starting Python is most of the time until a prompt.
"""
