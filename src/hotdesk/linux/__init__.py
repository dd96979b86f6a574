"""Linux, as Python 3.11 does not offer it: system calls, Landlock, seccomp, cgroups, user ids, loop devices, sockets.

Nothing here knows what a desk is.
"""
