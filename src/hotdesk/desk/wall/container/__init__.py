"""The wall `container`: a hardened OCI bundle started by crun, and the proof from /proc that it is in effect."""
