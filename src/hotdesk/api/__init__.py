"""What people and programs use over the network: E2B's surface, MCP, a native API, and a page to watch it all.

`hotdesk serve` is an owner that lives long. `http/dispatch.py` says which of them a request is for; nothing passes it
unnamed.
"""
