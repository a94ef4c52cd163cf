"""JSON logs, one line a change. Owns their shape only."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

LOGGER = logging.getLogger("gpucdi.operator")
_FIELDS = "gpucdi_fields"


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for ``record``; fields given to :func:`log` stand beside the message."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, _FIELDS, {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(level: int = logging.INFO) -> None:
    """Send everything to standard error; kopf speaks up from warnings on.

    kopf logs a line for each handled event of each object, which is one for each heartbeat.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(level)
    logging.getLogger("kopf.objects").setLevel(logging.ERROR)
    # It warns that it cannot take SIGTERM in its thread; that is why it has one.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)


def log(
    message: str, level: int = logging.INFO, *, trace: BaseException | None = None, **fields: object
) -> None:
    """Log one event with its fields; empty ones are left out. ``trace`` adds where it was raised."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", (), [])}
    LOGGER.log(level, message, extra={_FIELDS: shown}, exc_info=trace)
