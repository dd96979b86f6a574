"""E2B's control plane: creates, lists, pauses and ends sandboxes and snapshots."""
