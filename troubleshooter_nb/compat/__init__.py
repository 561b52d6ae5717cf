"""The old tools under their import paths: change the import line, keep the script."""
