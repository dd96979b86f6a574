"""Programs that run inside a desk, sent there as source. They import nothing of ours, and the host trusts no output."""
