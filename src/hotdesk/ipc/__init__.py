"""Communication between hotdesk's own processes: children, calls, framed messages, background tasks."""
