"""E2B's control plane: sandboxes and snapshots are made, listed, paused, ended."""
