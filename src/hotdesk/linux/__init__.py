"""Linux features that Python 3.11 lacks: system calls, Landlock, seccomp, cgroups, user ids, loop devices, sockets.

Nothing here depends on desks' logic.
"""
