"""The nodes of a YAML document: tags, styles and lines kept, nothing constructed.

Owns: the node classes and the bounds on them. Must not know: where nodes come from.
"""

from __future__ import annotations

NESTING_LIMIT = 100
NODE_LIMIT = 100_000


class _YamlError(ValueError):
    """Says why there is no document; ``count`` nodes were made before it was clear."""

    def __init__(self, problem: str, count: int = 0) -> None:
        super().__init__(problem)
        self.count = count


class UnreadableYamlError(_YamlError):
    """The text is no YAML to the library; the message is go-yaml's without its ``yaml: ``."""


class OverBoundError(_YamlError):
    """The text exceeds a bound of this package, not of the library."""


class Node:
    """A scalar, sequence, mapping or alias; ``line`` counts from 1."""

    __slots__ = ("anchor", "line", "tag")

    def __init__(self, line: int, tag: str, anchor: str | None) -> None:
        self.line = line
        self.tag = tag
        self.anchor = anchor


class ScalarNode(Node):
    """``plain`` is what go-yaml calls implicit: neither quoted nor tagged (or tagged ``!``)."""

    __slots__ = ("plain", "quoted", "value")

    def __init__(
        self,
        line: int,
        tag: str,
        anchor: str | None,
        value: str,
        *,
        plain: bool,
        quoted: bool,
    ) -> None:
        self.line = line
        self.tag = tag
        self.anchor = anchor
        self.value = value
        self.plain = plain
        self.quoted = quoted


class SequenceNode(Node):
    """A list of nodes."""

    __slots__ = ("items",)

    def __init__(self, line: int, tag: str, anchor: str | None) -> None:
        super().__init__(line, tag, anchor)
        self.items: list[Node] = []


class MappingNode(Node):
    """Pairs of nodes in the file's order."""

    __slots__ = ("pairs",)

    def __init__(self, line: int, tag: str, anchor: str | None) -> None:
        super().__init__(line, tag, anchor)
        self.pairs: list[tuple[Node, Node]] = []


class AliasNode(Node):
    """A reference to an anchored node; ``name`` is the anchor's."""

    __slots__ = ("name", "target")

    def __init__(self, line: int, name: str, target: Node) -> None:
        super().__init__(line, "", None)
        self.name = name
        self.target = target
