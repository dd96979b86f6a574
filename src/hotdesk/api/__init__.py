"""Network interfaces for people and programs: the E2B API, MCP, a native API and a web page.

`hotdesk serve` is an owner that lives long. `http/dispatch.py` says which of them a request is for; nothing passes it
unnamed.
"""
