"""What stands between a desk and the host, one package a wall."""
