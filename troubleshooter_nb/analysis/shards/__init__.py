"""Entries of several ranks put together again."""
