import string

import pytest

from troubleshooter_nb.render.causes.layers import WORDS

OWNED = (
    "bn_eps bn_gamma_ignored eval_train_mode norm_eps eps_underflow norm_weight_plus_one "
    "norm_weight_cast_order gelu_variant activation_changed random_in_eval dropout_keep_prob "
    "normalised_axes softmax_axis softmax_precision_path kernel_fault argument_order"
).split()


def gaps(template):
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


@pytest.mark.parametrize("cause", OWNED)
def test_both_languages_say_the_same_gaps(cause):
    words = WORDS[cause]
    for english, chinese in words:
        assert english
        assert chinese
        assert gaps(english) == gaps(chinese)
    known = {"left", "right", "before", "residual", "setting"}
    assert {"left", "right"} <= gaps(words.proof[0]) <= known


def test_there_are_no_other_words():
    assert set(WORDS) == set(OWNED)
