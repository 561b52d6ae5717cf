"""The columns of every table, each declared once; who shows or writes a table reads them here.

`column` says what a column is. To add one, declare it in the module of its table: `pairs` (of a
comparison), `statistics` (of one tensor), `entries` (of a dump), `pairings`, `weight_maps`,
`checkpoints`, `elements`, `series`, `overflows`, `recordings`, `facts`.
"""
