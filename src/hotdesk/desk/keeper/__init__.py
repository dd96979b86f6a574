"""The privileged side: one small child of each owner that prepares rooms, starts walls, enforces deadlines and burns.

Standard library only, so that it starts fast and its code can be read whole.
"""
