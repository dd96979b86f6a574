"""Insert secrets into requests, and remove them from responses."""
