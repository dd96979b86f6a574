"""Parts that the keeper prepares for every desk, whatever its wall: namespaces, file systems, disk, devices, limits."""
