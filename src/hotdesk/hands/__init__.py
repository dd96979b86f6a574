"""Tools of a worker at a desk.

A hand (`tool.Hand`) is a group of related tools: shell, files, packages, screen, browser. The arguments of each tool
are checked before anything runs; its result is an `Observation`. `toolbox.py` combines the hands of one desk, refuses
tools that may not be used at the moment, and records every use.

Pictures and pages come from a hostile desk, so the owner's process parses neither. It has a seat
(`screen/reader_client.py`), which sends requests to the reader (`reader/`): a process for that one desk, without files,
network or privileges, that uses only the connections it is given.
"""
