"""The privileged side: a small child process of each owner that prepares rooms, starts walls, enforces deadlines and
burns.

Standard library only, so that it starts fast and its code can be audited.
"""
