# ruff: noqa: INP001  # a script beside the files it reads and writes, not a package
"""Makes ``prometheusrule.yaml`` from ``rules.yaml``. Owns nothing but the wrapping."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
HEAD = """\
# Made from rules.yaml by render.py; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gpucdi
  namespace: gpucdi-system
  labels: {app.kubernetes.io/part-of: gpucdi}
spec:
"""


def rendered(rules: str) -> str:
    """Return the PrometheusRule that holds ``rules``."""
    lines = [line for line in rules.splitlines() if not line.startswith("#")]
    return HEAD + "".join(f"  {line}\n" if line else "\n" for line in lines)


if __name__ == "__main__":
    text = rendered((HERE / "rules.yaml").read_text(encoding="utf-8"))
    (HERE / "prometheusrule.yaml").write_text(text, encoding="utf-8")
    sys.stdout.write("prometheusrule.yaml is written\n")
