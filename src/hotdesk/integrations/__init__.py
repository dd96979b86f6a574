"""hotdesk behind other projects' seams. Each module needs that project, and nothing of ours imports one."""
