"""The recorder as one file, for a machine on which nothing can be installed."""
