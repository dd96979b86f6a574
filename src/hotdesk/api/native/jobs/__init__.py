"""Jobs over the native API: briefs and templates, their progress, approvals, results."""
