"""MCP: a computer for any client that speaks it, over stdio (`hotdesk mcp`) and streamable HTTP (`/mcp`).

How it works: a client's session has one desk (`session.py`), opened at the first use of a tool and burnt at the
session's end. Its tools are the desk's own hands and `deliver` (`deliver.py`); `protocol.py` tells clients of them in
MCP's words, `http.py` and `stdio.py` carry those. What a desk may be and reach is the operator's to say (`policy.py`);
no word of a client changes it, and what a desk says comes out fenced (`results.py`).
"""
