"""What facts of the evidence are called where a sentence lists them; the catalogue has them."""

from troubleshooter_nb.catalogue.words import ENGLISH_FACTS, FACTS

MESSAGES: dict[str, tuple[str, str]] = {
    name: (ENGLISH_FACTS.get(name, name.replace("_", " ")), chinese)
    for name, chinese in FACTS.items()
}
