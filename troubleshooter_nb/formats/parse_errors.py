"""What a parser of Python or numpy says about damaged text, in brief."""

from __future__ import annotations

import re

from troubleshooter_nb.messages import Foreign, Message, message_of

_ADDRESS = re.compile(r"<[^>]* object at 0x[0-9a-f]+>")


def in_brief(error: Exception, most: int) -> str:
    """A message of ours as it is; of others' words the first line, cut after so many letters."""
    said = message_of(error)
    if isinstance(said, Message):
        return said
    first = said.splitlines()[0]
    # Python's own advice for numbers of thousands of digits is none for a file.
    if "set_int_max_str_digits" in first:
        return Message("files.number_too_long")
    # It may quote an object with its address, which is another one in every run.
    return Foreign(_ADDRESS.sub("something else", first)[:most])
