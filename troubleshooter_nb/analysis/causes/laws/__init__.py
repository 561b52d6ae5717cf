"""What layers compute, as declarations: one file per family."""
