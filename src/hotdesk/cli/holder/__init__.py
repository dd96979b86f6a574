"""The holder: an owner in the background, one for each state directory and way of calling it.

It opens desks that outlive their command (`hotdesk open`), and it opens those of `hotdesk run` quickly, because it has
imported everything and has a keeper: such a desk is burnt when the call that asked for it ends. It starts on first use
and ends when no one has used it for a while. `process` is how it starts, `service` what it does, `client` how
`hotdesk open` finds it; `hotdesk.cli.quick` is the other client.
"""
