"""The launcher: the one privileged child of a server, which starts keepers and jobs, and nothing else."""
