"""Traffic to the ports of a sandbox: HTTP and WebSocket, parsed here and rewritten for the desk."""
