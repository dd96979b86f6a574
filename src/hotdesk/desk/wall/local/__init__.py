"""The wall `local`: a directory and an ordinary process, without isolation; for tests."""
