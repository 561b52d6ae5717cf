"""Migration faults that can be planted in the MindSpore networks."""

FAULTS: dict[str, dict[str, str]] = {
    "gpt": {
        "none": "A faithful port.",
        "ln_eps": "Every LayerNorm keeps MindSpore's default epsilon 1e-7 instead of torch's 1e-5.",
        "gelu_tanh": "MindSpore's default GELU (tanh form) stands where torch uses the erf form.",
        "scale": "Attention is divided by sqrt(dim) instead of sqrt(head dim) in block 2.",
        "mask": "The causal mask is missing in block 1.",
        "half_block": "The MLP of block 3 runs in float16 (a mixed-precision slip).",
        "detached_norm": "Block 2's ln2 takes mean and variance as constants in the backward pass: "
        "the loss is right, every gradient further upstream is wrong.",
    },
    "resnet": {
        "none": "A faithful port.",
        "bn_eps": "BatchNorm epsilon is 1e-3 instead of 1e-5 in layer2.",
        "pad_mode": "Strided convolutions stay at pad_mode='same', which pads right and bottom "
        "only, instead of padding 1 on every side.",
        "relu_order": "The last block applies ReLU before the residual addition.",
        "bn_momentum": "torch's BatchNorm momentum 0.1 is passed unchanged (MindSpore's is one "
        "minus torch's): only the running statistics differ, no gradient shows it.",
        "detached_skip": "The shortcut of layer2's first block is cut off from the backward pass: "
        "the loss is right, the shortcut's own gradients are zero and all before it are wrong.",
    },
}

# Of the port of a network of one's own: what is wrong, and the cause that undoes it.
PORT_FAULTS: dict[str, tuple[str, str]] = {
    "none": ("a faithful port", ""),
    "norm_eps": ("the LayerNorm has an epsilon of 1e-7, not 1e-5", "norm_eps"),
    "gelu": ("the GELU is the tanh form, not the erf form", "gelu_variant"),
    "padding": (
        "the convolution pads right and bottom only, not every side by 1",
        "same_padding_side",
    ),
    "detached": ("no gradient reaches fc2", "frozen_part"),
}
