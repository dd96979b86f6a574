"""Certificates by ACME (RFC 8555), obtained and renewed by a separate process: the server itself never connects.

`process` is that process; it has the account's key, answers http-01 challenges at a listener it was given
(`challenge`), and writes one file with key and chain (`files`). `client` speaks with the authority, `jws` signs for it,
`schedule` says when to try. `server_side` is the server's end: it starts the process and loads the file, without a
signal.
"""
