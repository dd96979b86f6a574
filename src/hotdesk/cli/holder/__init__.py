"""The holder: an owner process in the background, one for each state directory and configuration.

It opens desks that outlive their command (`hotdesk open`). It also opens those of `hotdesk run` quickly, because it has
everything imported and has a keeper; such a desk is burnt when its command ends. It starts on first use and ends when
idle. `process` is its entry point, `service` its work, `client` how `hotdesk open` finds it; `hotdesk.cli.quick` is the
other client.
"""
