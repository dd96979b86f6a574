"""The wall `local`: a directory and an ordinary process. It protects nothing; for tests."""
