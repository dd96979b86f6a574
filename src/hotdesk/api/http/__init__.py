"""The server's HTTP layer: routing to its parts, limits on connections and bodies, metrics, stalls."""
