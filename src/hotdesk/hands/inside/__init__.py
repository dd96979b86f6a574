"""Programs that run inside a desk, sent there as source. They import nothing of hotdesk; their output is untrusted."""
