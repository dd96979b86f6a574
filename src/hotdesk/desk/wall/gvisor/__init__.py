"""The wall `gvisor`: a kernel in user space (the sentry) between a desk's programs and the host's kernel."""
