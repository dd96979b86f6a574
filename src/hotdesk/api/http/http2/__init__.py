"""HTTP/2 in front of the application that HTTP/1.1 serves, if TLS chose it (ALPN).

`h2` keeps the state of a connection and its streams, without I/O. `connection` reads and writes for it, `stream` is one
request as ASGI defines it, `heads` validates request heads, `flood` limits frames that cost more to answer than to
send. No upgrade, no push, no WebSocket: browsers open an HTTP/1.1 connection for those.
"""
