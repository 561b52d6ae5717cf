"""Why a pair of tensors differs, recognised by computation on the arrays."""
