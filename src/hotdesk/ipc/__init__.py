"""Processes of ours and how they talk: children, calls, framed messages, tasks that outlive their callers."""
