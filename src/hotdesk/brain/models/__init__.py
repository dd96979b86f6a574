"""Who is asked: models by name, behind one seam.

How it works: a `Model` (`seam.py`) is given instructions, a history and tools, and gives a `Reply`: its thought, its
words, the tools it wants used, and its own items verbatim, to be sent back as they are.
"""
