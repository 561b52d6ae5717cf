"""What words that stand in evidence as values are called; `troubleshooter_nb.catalogue` has them.

Code compares them, so that they stay plain text; in English they are shown as they are.
"""

from troubleshooter_nb.catalogue import WORDS

MESSAGES: dict[str, tuple[str, str]] = {word: (word, chinese) for word, chinese in WORDS.items()}
