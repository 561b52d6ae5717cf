"""Numbers about tensors: arrays in, figures and verdicts out."""
