"""The command of a person's shell at a terminal of a desk. It imports nothing, because `hotdesk ssh` starts with it."""

from __future__ import annotations

NO_EGRESS = "this-desk-has-no-egress.open-it-with--allow-host.invalid"
"""The proxy's name in a desk without egress: programs fail to resolve it at once, and print it in the error."""
GREETING = "This desk has no network access. To reach a host, open a new desk with --allow HOST."
LOGIN_SHELL = [
    "/bin/sh",
    "-c",
    f'[ -t 1 ] && case $http_proxy in *{NO_EGRESS}*) echo "{GREETING}";; esac; '
    "[ -x /bin/bash ] && exec /bin/bash -l; exec /bin/sh -l",
]
"""A login shell. At a terminal of a desk without egress it first says so. Without a terminal (`ssh HOST < script`) it
prints nothing of its own."""
