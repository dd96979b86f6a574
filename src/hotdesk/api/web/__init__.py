"""The web page for starting, watching and controlling jobs and desks: static files, and a second origin.

`page.py` serves the files below `static/` and noVNC's. They talk to `/api/v1` with a session cookie. `content.py`
serves files that a desk wrote, at a separate origin without cookies and scripts.
"""
