"""Processes of ours and how they talk: children, framed messages, tasks that outlive their callers."""
