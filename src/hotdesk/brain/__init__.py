"""Who plans and acts.

How it works: a `Brain` (`seam.py`) says which steps it means to take, and takes each with `Hands`, never with a desk.
`scripted.py` is a brain of a few lines of Python beside a brief: the operator's own code.
"""
