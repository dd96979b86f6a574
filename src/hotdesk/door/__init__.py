"""The only way out of a desk.

How it works: the keeper makes a gate, a socket that listens inside a desk's network namespace, and hands it to the
door, a process of its own without privileges. What the desk sends there the door judges and answers; nothing else is
reachable, because nothing else exists in that namespace. Today the door refuses everything, and says so.
"""
