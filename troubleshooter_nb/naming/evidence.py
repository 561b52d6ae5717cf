"""What words and facts of the evidence are called."""

from __future__ import annotations

from troubleshooter_nb.messages import Message
from troubleshooter_nb.messages.sentences import SENTENCES


def evidence_word(word: str) -> str:
    """The message of a word that stands in evidence as a value; any other text as it is."""
    return _known(f"evidence_words.{word}", word)


def fact_name(name: str) -> str:
    """The message of what a fact of the evidence is called; other names as they are."""
    return _known(f"facts.{name}", name)


def _known(id: str, text: str) -> str:
    # Texts that are messages already, numbers with units, names of tensors: nothing to look up.
    return Message(id) if not isinstance(text, Message) and id in SENTENCES else text
