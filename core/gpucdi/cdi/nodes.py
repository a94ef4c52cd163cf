"""The first document of a spec file as nodes: tags, styles and lines kept, nothing constructed.

Owns: parsing (libyaml where PyYAML has it), the error texts of go-yaml's parser, and the bounds.
Must not know: structs, versions beyond which of go-yaml's two lines reports an error.

go-yaml is a port of libyaml, so that libyaml's own problems and marks give its texts; only the
choice of the line differs between v2 and v3 (``parser.fail`` in their decode.go).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)
from yaml.reader import ReaderError
from yaml.scanner import ScannerError

from .scalars import short_tag

NESTING_LIMIT = 100
NODE_LIMIT = 500_000


class UnreadableYamlError(ValueError):
    """The text is no YAML to the library; the message is go-yaml's without its ``yaml: ``."""


class OverBoundError(ValueError):
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
        self, line: int, tag: str, anchor: str | None, value: str, *, plain: bool, quoted: bool
    ) -> None:
        super().__init__(line, tag, anchor)
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


class _Parser(Protocol):
    def get_event(self) -> Event | None: ...


class _PythonParser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    """PyYAML's own parser, for a PyYAML that was built without libyaml."""

    def __init__(self, data: bytes) -> None:
        yaml.reader.Reader.__init__(self, data)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)


def _parser(data: bytes) -> _Parser:
    fast = getattr(yaml, "cyaml", None)
    parser: _Parser = _PythonParser(data) if fast is None else fast.CParser(data)
    return parser


def first_document(data: bytes, *, v3: bool) -> Node | None:
    """Return the root of the first document, or ``None`` for a stream without a document.

    Raises :class:`UnreadableYamlError` for what go-yaml v2 (or v3) cannot parse and
    :class:`OverBoundError` for what this package refuses to. What follows the document's end is
    not looked at, except for the one token that the parser needs to see the end.
    """
    try:
        events = _events(_parser(data or b"\n"))
        return _Builder(events).document()
    except yaml.YAMLError as error:
        raise UnreadableYamlError(_text(error, v3=v3)) from None
    except (UnicodeError, RecursionError, OverflowError) as error:
        raise UnreadableYamlError(str(error)) from None


def _events(parser: _Parser) -> Iterator[Event]:
    while True:
        event = parser.get_event()
        if event is None:
            return
        yield event


class _Builder:
    """Builds the tree without recursion, so that depth costs no stack."""

    def __init__(self, events: Iterator[Event]) -> None:
        self.events = events
        self.anchors: dict[str, Node] = {}

    def document(self) -> Node | None:
        for event in self.events:
            kind = type(event)
            if kind is StreamEndEvent:
                return None
            if kind not in {StreamStartEvent, DocumentStartEvent}:
                return self._tree(event)
        return None

    def _tree(self, first: Event) -> Node:
        root = self._node(first)
        stack: list[SequenceNode | MappingNode] = []
        keys: list[Node | None] = []
        if isinstance(root, (SequenceNode, MappingNode)):
            stack.append(root)
            keys.append(None)
        count = 0
        for event in self.events:
            kind = type(event)
            if kind is MappingEndEvent or kind is SequenceEndEvent:
                stack.pop()
                keys.pop()
                continue
            if kind is DocumentEndEvent:
                break
            node = self._node(event)
            parent = stack[-1]
            if type(parent) is SequenceNode:
                parent.items.append(node)
            elif keys[-1] is None:
                keys[-1] = node
            else:
                parent.pairs.append((keys[-1], node))  # type: ignore[union-attr]
                keys[-1] = None
            if kind is MappingStartEvent or kind is SequenceStartEvent:
                stack.append(node)  # type: ignore[arg-type]
                keys.append(None)
                if len(stack) > NESTING_LIMIT:
                    raise OverBoundError(f"nested deeper than {NESTING_LIMIT} levels")
            count += 1
            if count > NODE_LIMIT:
                raise OverBoundError(f"more than {NODE_LIMIT} YAML nodes")
        return root

    def _node(self, event: Event) -> Node:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if type(event) is AliasEvent:
            name = event.anchor or ""
            target = self.anchors.get(name)
            if target is None:
                raise UnreadableYamlError(f"unknown anchor '{name}' referenced")
            return AliasNode(line, name, target)
        node: Node
        if type(event) is ScalarEvent:
            tag = short_tag(event.tag) if event.tag else ""
            plain, quoted = event.implicit[0], bool(event.style)
            node = ScalarNode(line, tag, event.anchor, event.value, plain=plain, quoted=quoted)
        elif isinstance(event, CollectionStartEvent):
            tag = short_tag(event.tag) if event.tag else ""
            cls = MappingNode if type(event) is MappingStartEvent else SequenceNode
            node = cls(line, tag, event.anchor)
        else:
            raise UnreadableYamlError(f"attempted to parse unknown event: {event}")
        if node.anchor is not None:
            self.anchors[node.anchor] = node
        return node


def _text(error: yaml.YAMLError, *, v3: bool) -> str:
    if isinstance(error, ReaderError):
        return str(error.reason)
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(error)
    problem_line = error.problem_mark.line if error.problem_mark else 0
    context_line = error.context_mark.line if error.context_mark else 0
    scanned = isinstance(error, ScannerError)
    if v3:
        line = context_line or problem_line
        line += scanned and line != 0
    else:
        line = problem_line + (scanned and problem_line != 0) or context_line
    where = f"line {line}: " if line else ""
    return f"{where}{error.problem or 'unknown problem parsing YAML content'}"
