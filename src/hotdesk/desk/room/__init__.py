"""What the keeper prepares around every desk, whatever its wall: namespaces, file systems, disk, devices, limits."""
