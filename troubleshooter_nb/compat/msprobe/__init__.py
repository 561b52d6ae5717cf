"""msprobe's recording calls under their old names, with the folders, files and names they gave.

``from troubleshooter_nb.compat.msprobe.pytorch import PrecisionDebugger, seed_all`` takes the place
of ``from msprobe.pytorch import ...``, and ``.mindspore`` that of ``msprobe.mindspore``; the rest
of a script stays.
"""
