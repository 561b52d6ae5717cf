"""What a run was made with: versions, device and settings that can change numbers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

from troubleshooter_nb import frameworks
from troubleshooter_nb.frameworks import seeding
from troubleshooter_nb.messages import Message, told, visible
from troubleshooter_nb.options import get_options

if TYPE_CHECKING:
    import pandas as pd

_PACKAGES = ("numpy", "ml_dtypes", "troubleshooter_nb")
_SCALARS = (str, int, float, bool, type(None))
_MOST_FACTS = 100


@dataclass(frozen=True, repr=False)
class RunCard:
    """Facts about a run that explain differences between two of them.

    Attributes
    ----------
    facts : mapping of str to str, int, float, bool or None
        Flat, in the order shown: ``framework, version, device`` and its flags, what the user
        adds, versions of Python and packages by name. No home folder, host or user name is
        recorded.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", dict(self.facts))

    @classmethod
    def current(cls, framework: str | None = None, **facts: Any) -> RunCard:
        """A card of this process: versions, and the flags of the frameworks it has loaded.

        What `seed_all` has set is among them as long as it holds: ``seed, deterministic`` and
        ``dropout_removed``.

        Parameters
        ----------
        framework : {"torch", "mindspore"}, optional
            The one the run was made with; the other is then left out.
        **facts
            More facts of the run, such as ``seed=0``; plain values.
        """
        found: dict[str, Any] = {}
        loaded = frameworks.loaded()
        if framework is not None:
            found["framework"] = framework
            found["version"] = _version(framework)
            found |= loaded[framework].describe() if framework in loaded else {}
        elif seeding.last_seed() is not None:
            found["seed"] = seeding.last_seed()
        found |= facts
        found["python"] = platform.python_version()
        others = frameworks.NAMES if framework is None else ()
        found |= {p: v for p in (*_PACKAGES, *others) if (v := _version(p)) is not None}
        if framework is None:
            for name, adapter in loaded.items():
                found |= {f"{name}.{key}": value for key, value in adapter.describe().items()}
        return cls(found)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> RunCard:
        """A card from a file: plain values are kept, anything else is dropped.

        At most 100 facts are kept, text is cut at 200 characters.
        """
        kept = {
            str(key)[:200]: value[:200] if isinstance(value, str) else value
            for key, value in list(facts.items())[:_MOST_FACTS]
            if isinstance(value, _SCALARS)
        }
        return cls(kept)

    def to_dict(self) -> dict[str, Any]:
        """The facts as a plain dict."""
        return dict(self.facts)

    def difference(self, other: RunCard) -> pd.DataFrame:
        """Facts that differ, one row each with columns ``fact, left, right``.

        A fact only one card has shows as an empty cell on the other side.
        """
        import pandas as pd  # who only records has no use for it

        rows = [
            (key, self.facts.get(key, ""), other.facts.get(key, ""))
            for key in dict.fromkeys([*self.facts, *other.facts])
            if self.facts.get(key, "") != other.facts.get(key, "")
        ]
        return pd.DataFrame(rows, columns=["fact", "left", "right"])

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self.facts)

    def __repr__(self) -> str:
        """One line per fact."""
        if not self.facts:
            return told(Message("pages.empty_card"))
        facts = (
            f"  {visible(str(key))}: {visible(str(value))}" for key, value in self.facts.items()
        )
        return "RunCard\n" + "\n".join(facts)

    def _repr_html_(self) -> str:
        from troubleshooter_nb.render.dump_view import card_html

        return card_html(self.to_dict(), str(get_options()["language"]))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
