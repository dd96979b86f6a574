"""Network interfaces for people and programs: the E2B API, MCP, a native API and a web page.

`hotdesk serve` is a long-running process that owns desks. `http/dispatch.py` chooses the interface for each request,
and refuses requests for host names that are not the server's.
"""
