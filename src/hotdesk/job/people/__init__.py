"""Decisions of people about a job: cards they read, questions they answer, and the wait for both."""
