"""What layers compute, in float64 numpy: the reference both frameworks are held against."""
