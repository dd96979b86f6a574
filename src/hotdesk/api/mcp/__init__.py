"""MCP: a computer for any client that speaks it, over stdio (`hotdesk mcp`) and streamable HTTP (`/mcp`).

A client's session has one desk (`session.py`), opened at the first use of a tool and burnt at the session's end. Its
tools are the desk's own hands and `deliver` (`deliver.py`); `protocol.py` offers them to clients, `http.py` and
`stdio.py` are the transports. The operator sets a desk's size and egress (`desk_limits.py`), and no client can change
them; the desk's output is fenced (`results.py`).
"""
