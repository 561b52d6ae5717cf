"""What a person sees: HTML, text and pictures from tables and plain values."""
