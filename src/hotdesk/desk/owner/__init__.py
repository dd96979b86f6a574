"""The unprivileged side: a process that opens desks, through its own keeper or another owner's control socket."""
