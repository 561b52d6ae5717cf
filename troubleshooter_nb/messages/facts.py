"""What facts of the evidence are called where a sentence lists them; the catalogue has them."""

from troubleshooter_nb.catalogue.words import FACTS

MESSAGES: dict[str, tuple[str, str]] = {name: (name, chinese) for name, chinese in FACTS.items()}
MESSAGES["sampled"] = ("from", FACTS["sampled"])
