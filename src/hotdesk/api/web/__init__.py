"""The page by which people start, watch and steer everything: files that never change, and a second origin.

`page.py` serves the files below `static/` and noVNC's. They talk to `/api/v1` with a session cookie.
`content.py` serves what a desk wrote, at a name of its own, where no cookie and no script is.
"""
