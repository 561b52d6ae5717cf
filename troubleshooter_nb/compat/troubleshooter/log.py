"""The log lines of TroubleShooter: same logger, same prefixes, same look."""

from __future__ import annotations

import logging
import sys

from troubleshooter_nb.messages import told

NAME = "troubleshooter.log"


class _ToStderr(logging.Handler):
    """The documented line on stderr, unless somebody else listens already.

    The old tool called ``logging.basicConfig``, which takes the root logger away from the program
    that imports it.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("%(asctime)s - %(name)s - %(levelname)s - %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record to whatever sys.stderr is at this moment."""
        if not self._somebody_else_listens():
            sys.stderr.write(self.format(record) + "\n")

    def _somebody_else_listens(self) -> bool:
        logger: logging.Logger | None = logging.getLogger(NAME)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


_OWN_HANDLER = _ToStderr()


def user_attention(message: str, *values: object) -> None:
    """A fact every caller should see, at WARNING; the old tool's words take values."""
    _logger().warning("[*User Attention*] " + told(message), *values)


def user_warning(message: str) -> None:
    """Something is not as it should be and the work goes on, at WARNING."""
    _logger().warning("[*User Warning*] " + told(message))


def _logger() -> logging.Logger:
    logger = logging.getLogger(NAME)
    # Only now, so that an import alone leaves logging as it was. A second time does nothing.
    logger.addHandler(_OWN_HANDLER)
    return logger
