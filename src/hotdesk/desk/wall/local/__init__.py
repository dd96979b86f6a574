"""Wall `local`: a directory and an ordinary process. It protects nothing; for tests of what stands on a desk."""
