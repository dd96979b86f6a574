"""HTTP/1.1 and TLS on both sides of the door: strict framing, checked addresses, certificates."""
