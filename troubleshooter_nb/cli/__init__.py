"""The command line: one verb per job, each in the module of its name."""
