"""Certificates by ACME (RFC 8555), got and renewed by a process of its own: the server itself dials nothing.

`process` is that process; it has the account's key, answers http-01 challenges at a listener it was given
(`challenge`), and writes one file with key and chain (`files`). `client` speaks with the authority, `jws` signs for it,
`schedule` says when to try. `renewal` is the server's end: it starts the process and loads what it wrote, without a
signal.
"""
