"""HTTP/2 in front of the application that HTTP/1.1 serves, where TLS chose it (ALPN).

`h2` keeps the state of a connection and its streams, and knows no socket. `connection` reads and writes for it,
`stream` is one request as ASGI has it, `heads` says what a request's head may be, `flood` how much a client may ask for
that costs more to answer than to send. No upgrade, no push, no WebSocket: browsers open a connection of HTTP/1.1 for
those.
"""
