"""Traffic to the ports of a sandbox: HTTP and WebSocket, read here and written anew to the desk."""
