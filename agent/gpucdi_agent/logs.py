"""JSON logs: one line a change, none when nothing changes. Owns their shape only."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

LOGGER = logging.getLogger("gpucdi.agent")
_FIELDS = "fields"


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for ``record``; fields given to :func:`log` stand beside the message."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        extra = getattr(record, _FIELDS, None)
        if isinstance(extra, dict):
            line.update(extra)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(level: int = logging.INFO) -> None:
    """Send our log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level)
    LOGGER.propagate = False


def log(message: str, level: int = logging.INFO, **fields: object) -> None:
    """Log one event with its fields; empty ones are left out."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", (), [])}
    LOGGER.log(level, message, extra={_FIELDS: shown})
