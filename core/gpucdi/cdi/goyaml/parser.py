"""go-yaml's parser: tokens to the nodes of the first document.

Owns: the grammar and the parser's texts. Must not know: characters, Go structs.

Source: ``go-yaml/yaml`` v2.4.0 and ``go.yaml.in/yaml/v3`` v3.0.5, parserc.go. Recursive where the
original is a state machine; :data:`~gpucdi.cdi.nodetypes.NESTING_LIMIT` bounds the depth.
"""

from __future__ import annotations

from collections.abc import Callable

from gpucdi.cdi.nodetypes import (
    NESTING_LIMIT,
    NODE_LIMIT,
    AliasNode,
    MappingNode,
    Node,
    OverBoundError,
    ScalarNode,
    SequenceNode,
    UnreadableYamlError,
)
from gpucdi.cdi.scalars import short_tag

from .cursor import GoYamlError, Mark, Token
from .reader import GoReaderError, GoText
from .scanner import Scanner

_HANDLES = {"!": "!", "!!": "tag:yaml.org,2002:"}
_DOCUMENT_ENDS = frozenset(
    ("version-directive", "tag-directive", "document-start", "document-end", "stream-end")
)
_NO_VALUE = frozenset(("key", "value", "block-end"))
_NO_ITEM = frozenset(("block-entry", "key", "value", "block-end"))


def parse(data: bytes, *, v3: bool) -> tuple[Node | None, int]:
    """Return the root of the first document as go-yaml would, ``None`` without one, and its size.

    Raises :class:`UnreadableYamlError` with go-yaml's text, :class:`OverBoundError` above a bound;
    like the size, their ``count`` is in nodes.
    """
    parser: _Parser | None = None
    try:
        parser = _Parser(Scanner(GoText(data or b"\n"), v3=v3))
        return parser.document(), parser.count
    except GoReaderError as error:
        raise UnreadableYamlError(str(error), parser.count if parser else 0) from None
    except GoYamlError as error:
        raise UnreadableYamlError(_text(error, v3=v3), parser.count if parser else 0) from None


def _text(error: GoYamlError, *, v3: bool) -> str:
    scanned = int(error.scanned)
    if v3:
        line = error.context_line or error.line
        line += scanned if line else 0
    else:
        line = error.line + scanned if error.line else error.context_line
    return f"line {line}: {error.problem}" if line else error.problem


_FillSequence = Callable[[SequenceNode], None]
_FillMapping = Callable[[MappingNode], None]


class _Parser:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.anchors: dict[str, Node] = {}
        self.handles: dict[str, str] = {}
        self.depth = 0
        self.count = 0

    def document(self) -> Node | None:
        self.scanner.take()
        token = self.scanner.peek()
        if token.kind == "stream-end":
            return None
        explicit = token.kind in {"version-directive", "tag-directive", "document-start"}
        self._directives()
        starts_empty = False
        if explicit:
            token = self.scanner.peek()
            if token.kind != "document-start":
                raise GoYamlError(
                    "did not find expected <document start>", token.start, scanned=False
                )
            self.scanner.take()
            token = self.scanner.peek()
            starts_empty = token.kind in _DOCUMENT_ENDS
        root = _empty(token.start) if starts_empty else self._node(block=True)
        # go-yaml asks for the end of the document, which makes it look at what follows.
        self.scanner.peek()
        return root

    def _directives(self) -> None:
        has_version = False
        while (token := self.scanner.peek()).kind in {"version-directive", "tag-directive"}:
            if token.kind == "version-directive":
                if has_version:
                    raise GoYamlError("found duplicate %YAML directive", token.start, scanned=False)
                if token.value != "1.1":
                    raise GoYamlError(
                        "found incompatible YAML document", token.start, scanned=False
                    )
                has_version = True
            elif token.value in self.handles:
                raise GoYamlError("found duplicate %TAG directive", token.start, scanned=False)
            else:
                self.handles[token.value] = token.suffix
            self.scanner.take()
        self.handles = {**_HANDLES, **self.handles}

    def _node(self, *, block: bool, indentless: bool = False) -> Node:
        self.count += 1
        if self.count > NODE_LIMIT:
            raise OverBoundError(f"more than {NODE_LIMIT} YAML nodes", self.count)
        token = self.scanner.peek()
        if token.kind == "alias":
            target = self.anchors.get(token.value)
            if target is None:
                raise UnreadableYamlError(f"unknown anchor '{token.value}' referenced", self.count)
            self.scanner.take()
            return AliasNode(token.start.line + 1, token.value, target)
        start = token.start
        anchor, tag_token = self._properties()
        tag = self._tag(tag_token, start)
        token = self.scanner.peek()
        if anchor is None and tag_token is None:
            start = token.start
        line = start.line + 1
        if token.kind == "scalar":
            self.scanner.take()
            plain = (not tag and not token.quoted) or tag == "!"
            scalar = ScalarNode(
                line, short_tag(tag), anchor, token.value, plain=plain, quoted=token.quoted
            )
            return self._anchored(scalar)
        found = self._collection(token.kind, line, tag, anchor, block=block, indentless=indentless)
        if found is not None:
            return found
        if anchor is not None or tag:
            # An empty scalar is untagged or tagged, never quoted.
            return self._anchored(
                ScalarNode(line, short_tag(tag), anchor, "", plain=not tag, quoted=False)
            )
        raise GoYamlError("did not find expected node content", token.start, start, scanned=False)

    def _properties(self) -> tuple[str | None, Token | None]:
        anchor: str | None = None
        tag: Token | None = None
        for _ in range(2):
            token = self.scanner.peek()
            if token.kind == "anchor" and anchor is None:
                anchor = self.scanner.take().value
            elif token.kind == "tag" and tag is None:
                tag = self.scanner.take()
            else:
                break
        return anchor, tag

    def _tag(self, token: Token | None, start: Mark) -> str:
        if token is None:
            return ""
        if not token.value:
            return token.suffix
        prefix = self.handles.get(token.value)
        if not prefix and not (prefix == "" and token.suffix):
            raise GoYamlError("found undefined tag handle", token.start, start, scanned=False)
        return prefix + token.suffix

    def _anchored(self, node: Node) -> Node:
        if node.anchor is not None:
            self.anchors[node.anchor] = node
        return node

    def _collection(
        self, kind: str, line: int, tag: str, anchor: str | None, *, block: bool, indentless: bool
    ) -> Node | None:
        tag = short_tag(tag)
        self.depth += 1
        if self.depth > NESTING_LIMIT:
            raise OverBoundError(f"nested deeper than {NESTING_LIMIT} levels", self.count)
        node: Node | None = None
        if indentless and kind == "block-entry":
            node = self._sequence(SequenceNode(line, tag, anchor), self._indentless_items)
        elif kind == "flow-sequence-start":
            node = self._sequence(SequenceNode(line, tag, anchor), self._flow_items)
        elif kind == "flow-mapping-start":
            node = self._mapping(MappingNode(line, tag, anchor), self._flow_pairs)
        elif block and kind == "block-sequence-start":
            node = self._sequence(SequenceNode(line, tag, anchor), self._block_items)
        elif block and kind == "block-mapping-start":
            node = self._mapping(MappingNode(line, tag, anchor), self._block_pairs)
        self.depth -= 1
        return node

    def _sequence(self, node: SequenceNode, fill: _FillSequence) -> Node:
        self._anchored(node)
        fill(node)
        return node

    def _mapping(self, node: MappingNode, fill: _FillMapping) -> Node:
        self._anchored(node)
        fill(node)
        return node

    def _block_items(self, node: SequenceNode) -> None:
        opened = self.scanner.take().start
        while True:
            token = self.scanner.peek()
            if token.kind == "block-end":
                self.scanner.take()
                return
            if token.kind != "block-entry":
                raise GoYamlError(
                    "did not find expected '-' indicator", token.start, opened, scanned=False
                )
            self.scanner.take()
            if self.scanner.peek().kind in {"block-entry", "block-end"}:
                node.items.append(_empty(token.end))
            else:
                node.items.append(self._node(block=True))

    def _indentless_items(self, node: SequenceNode) -> None:
        while (token := self.scanner.peek()).kind == "block-entry":
            self.scanner.take()
            if self.scanner.peek().kind in _NO_ITEM:
                node.items.append(_empty(token.end))
            else:
                node.items.append(self._node(block=True))

    def _block_pairs(self, node: MappingNode) -> None:
        opened = self.scanner.take().start
        while True:
            token = self.scanner.peek()
            if token.kind == "block-end":
                self.scanner.take()
                return
            if token.kind != "key":
                raise GoYamlError("did not find expected key", token.start, opened, scanned=False)
            self.scanner.take()
            key = self._block_part(token.end)
            token = self.scanner.peek()
            if token.kind == "value":
                self.scanner.take()
                node.pairs.append((key, self._block_part(token.end)))
            else:
                node.pairs.append((key, _empty(token.start)))

    def _block_part(self, mark: Mark) -> Node:
        if self.scanner.peek().kind in _NO_VALUE:
            return _empty(mark)
        return self._node(block=True, indentless=True)

    def _flow_items(self, node: SequenceNode) -> None:
        opened = self.scanner.take().start
        first = True
        while (token := self.scanner.peek()).kind != "flow-sequence-end":
            if not first:
                if token.kind != "flow-entry":
                    raise GoYamlError(
                        "did not find expected ',' or ']'", token.start, opened, scanned=False
                    )
                self.scanner.take()
                token = self.scanner.peek()
                if token.kind == "flow-sequence-end":
                    break
            first = False
            if token.kind == "key":
                node.items.append(self._single_pair())
            else:
                node.items.append(self._node(block=False))
        self.scanner.take()

    def _single_pair(self) -> Node:
        token = self.scanner.take()
        node = MappingNode(token.start.line + 1, "", None)
        ahead = self.scanner.peek()
        if ahead.kind in {"value", "flow-entry", "flow-sequence-end"}:
            # The original forgets a token here and loses what follows it.
            self.scanner.take()
            key: Node = _empty(ahead.end)
        else:
            key = self._node(block=False)
        token = self.scanner.peek()
        if token.kind == "value":
            self.scanner.take()
            token = self.scanner.peek()
            if token.kind not in {"flow-entry", "flow-sequence-end"}:
                node.pairs.append((key, self._node(block=False)))
                self.scanner.peek()
                return node
        node.pairs.append((key, _empty(token.start)))
        return node

    def _flow_pairs(self, node: MappingNode) -> None:
        opened = self.scanner.take().start
        first = True
        while (token := self.scanner.peek()).kind != "flow-mapping-end":
            if not first:
                if token.kind != "flow-entry":
                    raise GoYamlError(
                        "did not find expected ',' or '}'", token.start, opened, scanned=False
                    )
                self.scanner.take()
                token = self.scanner.peek()
                if token.kind == "flow-mapping-end":
                    break
            first = False
            if token.kind == "key":
                self.scanner.take()
                node.pairs.append(self._flow_pair())
            else:
                key = self._node(block=False)
                node.pairs.append((key, _empty(self.scanner.peek().start)))
        self.scanner.take()

    def _flow_pair(self) -> tuple[Node, Node]:
        token = self.scanner.peek()
        if token.kind in {"value", "flow-entry", "flow-mapping-end"}:
            key: Node = _empty(token.start)
        else:
            key = self._node(block=False)
        token = self.scanner.peek()
        if token.kind == "value":
            self.scanner.take()
            token = self.scanner.peek()
            if token.kind not in {"flow-entry", "flow-mapping-end"}:
                return key, self._node(block=False)
        return key, _empty(token.start)


def _empty(mark: Mark) -> ScalarNode:
    return ScalarNode(mark.line + 1, "", None, "", plain=True, quoted=False)
