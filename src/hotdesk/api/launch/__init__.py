"""The one privileged child of a server: it starts keepers and jobs, and nothing else."""
