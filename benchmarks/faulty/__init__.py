"""Networks with planted faults, and what a comparison makes of their dumps."""
