"""msprobe's comparison: its command, its tables, its verdicts and its advice."""
