"""The first document of a spec file as nodes.

Owns: the choice between libyaml, which is fast, and this package's port of go-yaml, which is
exact; the two agree on everything that is not :data:`_RISKY`. Must not know: structs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

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
    StreamEndEvent,
    StreamStartEvent,
)

from . import goyaml
from .nodetypes import (
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
from .scalars import short_tag

# Where libyaml and go-yaml differ, or where nobody needs speed: `\/`, tabs, tags, `?`, line breaks
# beyond CR and LF, byte order marks, directives, `a:,` and `-,` in flow style.
_RISKY = (
    *(b"\\/", b"\t", b"!", b"?", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9"),
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\n%", b"\r%"),
    *(b":,", b":]", b":}", b"-,", b"-[", b"-]", b"-{", b"-}"),
)
_COMPACT = (b":[", b":{")


def _is_risky(data: bytes) -> bool:
    # One pass of `in` for each is several times faster than one regular expression for all.
    if data.startswith(b"%") or any(each in data for each in _RISKY):
        return True
    # Compact JSON has these behind a quote, where they are harmless.
    return any(data.count(each) != data.count(b'"' + each) for each in _COMPACT)


class _EventSource(Protocol):
    def get_event(self) -> Event | None: ...


# Beyond this only libyaml reads a text: the port of go-yaml would take too long.
EXACT_LIMIT_BYTES = 128 * 1024
_KEPT_BYTES = 32 * 1024
_KEPT_NODES = 50_000


class _UnsureError(Exception):
    """libyaml met something that go-yaml should judge."""


@dataclass(frozen=True, slots=True)
class Document:
    """The first document; ``root`` is ``None`` for a stream without one, ``count`` counts its nodes.

    ``was_slow`` tells that libyaml could not be trusted with it.
    """

    root: Node | None
    count: int
    was_slow: bool = False


# None: libyaml is not to be trusted with this text.
_Result = Document | UnreadableYamlError | OverBoundError | None


def first_document(data: bytes, *, v3: bool) -> Document:
    """Return the first document of a text.

    Raises :class:`~gpucdi.cdi.nodetypes.UnreadableYamlError` for what go-yaml v2 (or v3) cannot
    parse and :class:`~gpucdi.cdi.nodetypes.OverBoundError` for what this package refuses to, such
    as more than :data:`EXACT_LIMIT_BYTES` that only the port of go-yaml can be trusted with. What
    follows the document's end counts as far as go-yaml looks ahead. Nodes are shared between
    calls and must not be changed.
    """
    found = _kept.result(data, None) or _kept.result(data, v3)
    if isinstance(found, Exception):
        raise found.with_traceback(None)
    return cast("Document", found)


def _fast(data: bytes) -> _Result:
    fast = getattr(yaml, "cyaml", None)
    if fast is None or not data or _is_risky(data):
        return None
    try:
        return _Builder(_events(fast.CParser(data))).document()
    except OverBoundError as error:
        return error
    except (yaml.YAMLError, _UnsureError, UnicodeError):
        return None


def _exact(data: bytes, v3: bool) -> _Result:
    if len(data) > EXACT_LIMIT_BYTES:
        text = f"larger than {EXACT_LIMIT_BYTES} bytes and written in a way that takes long to read"
        return OverBoundError(text)
    try:
        root, count = goyaml.parse(data, v3=v3)
    except (UnreadableYamlError, OverBoundError) as error:
        return error
    return Document(root, count, was_slow=True)


class _Kept:
    """The results for small texts that were asked for last, with a bound on their nodes.

    The readers of a node load the same files one after the other, each with its own version.
    """

    def __init__(self) -> None:
        self._results: OrderedDict[tuple[bytes, bool | None], _Result] = OrderedDict()
        self._nodes = 0
        self._lock = threading.Lock()

    def result(self, data: bytes, v3: bool | None) -> _Result:
        """Return what libyaml (``v3`` is ``None``) or a line of go-yaml makes of ``data``."""
        key = (data, v3)
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = _fast(data) if v3 is None else _exact(data, v3)
        if len(data) <= _KEPT_BYTES:
            with self._lock:
                if key not in self._results:
                    self._results[key] = result
                    self._nodes += _weight(key, result)
                while self._nodes > _KEPT_NODES:
                    self._nodes -= _weight(*self._results.popitem(last=False))
        return result

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._results.clear()
            self._nodes = 0


def _weight(key: tuple[bytes, bool | None], result: _Result) -> int:
    # A node takes some 200 bytes.
    return len(key[0]) // 200 + (result.count if isinstance(result, Document) else 0) + 1


_kept = _Kept()


def _events(parser: _EventSource) -> Iterator[Event]:
    # The parser gives None behind the end of the stream.
    return cast("Iterator[Event]", iter(parser.get_event, None))


class _Builder:
    """Builds the tree without recursion, so that depth costs no stack."""

    def __init__(self, events: Iterator[Event]) -> None:
        self.events = events
        self.anchors: dict[str, Node] = {}
        self.count = 0

    def document(self) -> Document:
        for event in self.events:
            kind = type(event)
            if kind is StreamEndEvent:
                break
            if kind is not StreamStartEvent and kind is not DocumentStartEvent:
                root = self._tree(event)
                if type(next(self.events, None)) is not StreamEndEvent:
                    raise _UnsureError
                return Document(root, self.count)
        return Document(None, 0)

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
            else:
                _put(node, parent, keys)
            if kind is not ScalarEvent and isinstance(node, (SequenceNode, MappingNode)):
                stack.append(node)
                keys.append(None)
                if len(stack) > NESTING_LIMIT:
                    raise OverBoundError(f"nested deeper than {NESTING_LIMIT} levels", count)
            count += 1
            if count > NODE_LIMIT:
                raise OverBoundError(f"more than {NODE_LIMIT} YAML nodes", count)
        self.count = count + 1
        return root

    def _node(self, event: Event) -> Node:
        mark = event.start_mark
        line = mark.line + 1 if mark is not None else 0
        if type(event) is ScalarEvent:
            tag, anchor, style = event.tag, event.anchor, event.style
            scalar = ScalarNode(
                line,
                short_tag(tag) if tag else "",
                anchor,
                event.value,
                plain=event.implicit[0],
                quoted=style is not None and style != "",
            )
            if anchor is not None:
                self.anchors[anchor] = scalar
            return scalar
        if type(event) is AliasEvent:
            name = event.anchor or ""
            target = self.anchors.get(name)
            if target is None:
                raise _UnsureError
            return AliasNode(line, name, target)
        if not isinstance(event, CollectionStartEvent):
            raise _UnsureError
        tag = short_tag(event.tag) if event.tag else ""
        cls = MappingNode if type(event) is MappingStartEvent else SequenceNode
        node = cls(line, tag, event.anchor)
        if node.anchor is not None:
            self.anchors[node.anchor] = node
        return node


def _put(node: Node, parent: SequenceNode | MappingNode, keys: list[Node | None]) -> None:
    """Add ``node`` to its parent; ``keys[-1]`` is the key that waits for its value."""
    if not isinstance(parent, MappingNode):
        parent.items.append(node)
        return
    key = keys[-1]
    if key is None:
        keys[-1] = node
    else:
        parent.pairs.append((key, node))
        keys[-1] = None
