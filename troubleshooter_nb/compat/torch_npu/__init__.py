"""The accuracy tool of torch_npu under its old import path."""
