"""Tools of a worker at a desk.

How it works: a hand (`tool.Hand`) is some tools that belong together: shell, files, packages, screen, browser. Each
tool's arguments are checked before anything runs; what comes of it is an `Observation`. `toolbox.py` holds the hands of
one desk, refuses what may not be used now, and writes every use down.

Pictures and pages come from a hostile desk, so the owner reads neither: a seat (`screen/reader_client.py`) asks a
process of the desk's own, the reader (`reader/`), which holds nothing and reaches nothing but the connections it is
handed.
"""
