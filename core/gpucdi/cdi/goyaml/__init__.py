"""go-yaml's own idea of YAML, where libyaml's differs.

Owns: a port of the front half of go-yaml v2 and v3, from bytes to nodes. Must not know: specs.
Slow next to libyaml; :mod:`gpucdi.cdi.nodes` comes here only for texts that the two might read
differently.
"""

from .parser import parse

__all__ = ["parse"]
