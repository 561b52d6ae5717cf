"""A rule of an optimizer in words: whole, or what a form of a cause is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from troubleshooter_nb.analysis.causes.training.rules import Rule, spread
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming.evidence import evidence_word

Rules = tuple[Rule, Rule]


def about(form: str, rules: Rules, numbers: Sequence[int]) -> tuple[str, str]:
    """What each rule says of that which a form of a cause is about, in words.

    `numbers` are those of the steps, where known.
    """
    said = [_settings_text(form, rule, rules, numbers) for rule in rules]
    return said[0], said[1]


def _settings_text(form: str, rule: Rule, rules: Rules, numbers: Sequence[int]) -> str:
    words = list[str]()
    if form == "restart":
        step = numbers[rule.restart] if rule.restart < len(numbers) else rule.restart
        anew = Message("evidence.restarted", step=step)
        words = [anew if rule.restart else Message("evidence.remembered")]
    elif form in ("coupling", "value", "selection"):
        words = [_decay_text(rule)]
    elif form == "betas":
        words = [_betas_text(rule)]
    elif form == "epsilon":
        words = [Message(_EPS[rule.place], eps=rule.eps)]
    elif form == "momentum":
        for name in ("momentum", "dampening"):
            if any(abs(getattr(one, name)) > _NO_SETTING for one in rules):
                value = getattr(rule, name)
                value = value if abs(value) > _NO_SETTING else 0.0
                words.append(Message(f"evidence.{name}", **{name: value}))
        words += ["Nesterov"] if rule.nesterov else []
    return joined(words, by=",") if words else rule_text(rule)


_NO_SETTING = 1e-4  # A fitted setting below is none.
_EPS = {
    "outside": "evidence.eps_outside",
    "inside": "evidence.eps_inside",
    "before_correction": "evidence.eps_before_correction",
    "inside_before": "evidence.eps_inside_before",
}


def rule_text(rule: Rule) -> str:
    """The rule in a line: ``sgd, rate 0.1, momentum 0.9``."""
    number: Callable[[float], str] = "{:.4g}".format
    rates = rule.rates
    same = spread(np.array(rates)) < 1e-3
    rate = number(float(np.median(rates))) if same else _rates_text(rates)
    words = [rule.family, Message("evidence.rate", rate=rate)]
    if rule.family == "sgd":
        if rule.momentum:
            words.append(Message("evidence.momentum", momentum=rule.momentum))
        if abs(rule.dampening) > _NO_SETTING:
            words.append(Message("evidence.dampening", dampening=rule.dampening))
        words += ["Nesterov"] if rule.nesterov else []
    else:
        words.append(_betas_text(rule))
        words.append(Message(_EPS[rule.place], eps=rule.eps))
        words += [] if rule.correction else [Message("evidence_words.no bias correction")]
        words += [Message("evidence_words.squares start at 1")] if rule.start else []
    if any(rule.decay):
        words.append(_decay_text(rule))
    return joined(words, by=",")


def _betas_text(rule: Rule) -> str:
    return f"betas {rule.momentum:.4g}, {rule.beta:.4g}"


def _decay_text(rule: Rule) -> Message:
    """The decay with its coupling; one number where it is that of all parameters."""
    one, other = (f"{value:.4g}" for value in rule.decay)
    if not any(rule.decay):
        return Message("evidence.no_decay")
    coupling = evidence_word("decoupled" if rule.decoupled else "in the gradient")
    if one == other:
        return Message("evidence.decay", decay=one, coupling=coupling)
    return Message("evidence.decay_by_ndim", decay=other, other=one, coupling=coupling)


def _rates_text(rates: tuple[float, ...]) -> str:
    shown = ", ".join(f"{rate:.3g}" for rate in rates[:5])
    return f"{shown}{', ...' if len(rates) > 5 else ''}"
