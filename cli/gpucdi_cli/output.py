"""JSON for programs on standard output. Owns its form; must not know what is in it."""

from __future__ import annotations

import codecs
import json
import sys


def json_text(document: object) -> str:
    """Return a document as indented JSON with a line end.

    Signs that the output's encoding does not have are escaped: a question mark in their place would
    be another value.
    """
    return json.dumps(document, indent=2, ensure_ascii=not _speaks_unicode()) + "\n"


def _speaks_unicode() -> bool:
    try:
        name = codecs.lookup(sys.stdout.encoding or "ascii").name
    except LookupError:
        return False
    return name.startswith("utf")
