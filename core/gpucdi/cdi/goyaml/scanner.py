r"""go-yaml's scanner: characters to tokens, with its exact idea of what is legal.

Owns: the rules in which go-yaml differs from today's libyaml (``\/`` is no escape, ``a:`` may
stand in a flow mapping, a byte order mark is only one at the start, what v3 does to comments).
Must not know: documents, nodes. Slow next to libyaml; :mod:`gpucdi.cdi.nodes` comes here only for
texts that libyaml might read differently.

Source: ``go-yaml/yaml`` v2.4.0 and ``go.yaml.in/yaml/v3`` v3.0.5, scannerc.go and readerc.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .cursor import BLANKZ, BREAK, Cursor, Mark, Token
from .reader import GoText
from .tags import scan_directive, scan_tag
from .text import scan_block, scan_plain, scan_quoted

_KEY_LIMIT = 1024
_DEPTH_LIMIT = 10_000
_COMMENT_LIMIT = 512
_NO_PLAIN_START = frozenset("-?:,[]{}#&*!|>'\"%@`")
_AFTER_ANCHOR = BLANKZ | frozenset("?:,]}%@`")
_LINE_COMMENT = re.compile(r"[ \t]*#[^\r\n\x85\u2028\u2029\0]*")
_MORE_COMMENT = re.compile(r"[ \t\r\n\x85\u2028\u2029]*#")


class _SimpleKey:
    """A place where a key without ``?`` may have begun."""

    __slots__ = ("mark", "number", "possible", "required")

    def __init__(self, number: int, mark: Mark, *, possible: bool, required: bool) -> None:
        self.number = number
        self.mark = mark
        self.possible = possible
        self.required = required


class Scanner(Cursor):
    """Tokens on demand; the first of ``tokens`` is next, ``parsed`` were taken before it."""

    def __init__(self, text: GoText, *, v3: bool) -> None:
        super().__init__(text)
        self.v3 = v3
        self.indents: list[int] = []
        self.tokens: list[Token] = [Token("stream-start", self.mark, self.mark)]
        self.parsed = 0
        self.key_allowed = True
        self.keys = [_SimpleKey(0, self.mark, possible=False, required=False)]
        self.keys_by_token: dict[int, _SimpleKey] = {}
        self.anywhere: dict[str, Callable[[], None]] = {
            "[": self._flow_start,
            "{": self._flow_start,
            "]": self._flow_end,
            "}": self._flow_end,
            ",": self._flow_entry,
            "*": self._anchor,
            "&": self._anchor,
            "!": self._tag,
        }

    def peek(self) -> Token:
        """Return the next token, reading as far ahead as go-yaml does."""
        ahead = 2 if self.v3 else 0
        while True:
            if len(self.tokens) > ahead:
                key = self.keys_by_token.get(self.parsed)
                if key is None or not self._is_valid(key):
                    return self.tokens[0]
            self._fetch()

    def take(self) -> Token:
        """Return the next token and go past it."""
        token = self.peek()
        del self.tokens[0]
        self.parsed += 1
        return token

    def _fetch(self) -> None:
        scan_mark = self.mark
        self._to_next_token()
        self._unroll(self.column, scan_mark if self.v3 else None)
        text, index = self.text, self.index
        character = text[index]
        if character == "\0":
            self._stream_end()
            return
        if self.column == 0:
            if character == "%":
                self._directive()
                return
            if text[index + 3] in BLANKZ and text[index : index + 3] in {"---", "..."}:
                self._document_indicator(character)
                return
        self._fetch_content(character)
        if self.v3 and self.tokens[-1].kind != "block-entry" and not self.newlines:
            comment = _LINE_COMMENT.match(self.text, self.index)
            if comment:
                self.skip(comment.end() - self.index)

    def _fetch_content(self, character: str) -> None:
        indicator = self._indicator(character)
        if indicator is not None:
            indicator()
        elif character in "'\"":
            self._save_key()
            self.key_allowed = False
            self.tokens.append(scan_quoted(self, character))
        elif self._starts_plain(character):
            self._save_key()
            self.key_allowed = False
            token, broken = scan_plain(self)
            self.key_allowed = broken
            self.tokens.append(token)
        else:
            raise self.error(self.mark, "found character that cannot start any token")

    def _indicator(self, character: str) -> Callable[[], None] | None:
        """Return what to do about an indicator that stands where it means something."""
        found = self.anywhere.get(character)
        if found is not None:
            return found
        blank_next = self.text[self.index + 1] in BLANKZ
        if character == "-" and blank_next:
            return self._block_entry
        if character == "?" and (self.flow or blank_next):
            return self._key
        if character == ":" and (self.flow or blank_next):
            return self._value
        if character in "|>" and not self.flow:
            return self._block_scalar
        return None

    def _starts_plain(self, character: str) -> bool:
        following = self.text[self.index + 1]
        if character not in _NO_PLAIN_START and character not in BLANKZ:
            return True
        if character == "-" and following not in " \t":
            return True
        return not self.flow and character in "?:" and following not in BLANKZ

    def _to_next_token(self) -> None:
        while True:
            if self.column == 0 and self.source.keeps_bom and self.text[self.index] != "\0":
                self.skip()
            tabs = self.flow > 0 or not self.key_allowed
            while self.text[self.index] == " " or (tabs and self.text[self.index] == "\t"):
                self.skip_blank()
            if self.text[self.index] == "#":
                self._comments()
            if self.text[self.index] not in BREAK:
                return
            self.skip_line()
            if not self.flow:
                self.key_allowed = True

    def _comments(self) -> None:
        while True:
            self.read_line()
            more = _MORE_COMMENT.match(self.text, self.index) if self.v3 else None
            if more is None or more.end() - self.index > _COMMENT_LIMIT:
                return
            while self.index < more.end() - 1:
                if not self.skip_line():
                    self.skip_blank()

    def _is_valid(self, key: _SimpleKey) -> bool:
        if not key.possible:
            return False
        if key.mark.line < self.line or key.mark.offset + _KEY_LIMIT < self.index:
            if key.required:
                raise self.error(key.mark, "could not find expected ':'")
            key.possible = False
            return False
        return True

    def _save_key(self) -> None:
        if not self.key_allowed:
            return
        required = not self.flow and self.indent == self.column
        key = _SimpleKey(
            self.parsed + len(self.tokens), self.mark, possible=True, required=required
        )
        self._remove_key()
        self.keys[-1] = key
        self.keys_by_token[key.number] = key

    def _remove_key(self) -> None:
        key = self.keys[-1]
        if key.possible:
            if key.required:
                raise self.error(key.mark, "could not find expected ':'")
            key.possible = False
            self.keys_by_token.pop(key.number, None)

    def _insert(self, number: int, token: Token) -> None:
        """Put a token before the one of that number, at the end for -1."""
        if number < 0:
            self.tokens.append(token)
        else:
            self.tokens.insert(number - self.parsed, token)

    def _roll(self, column: int, number: int, kind: str, mark: Mark) -> None:
        if self.flow or self.indent >= column:
            return
        self.indents.append(self.indent)
        self.indent = column
        if len(self.indents) > _DEPTH_LIMIT:
            raise self.error(self.keys[-1].mark, f"exceeded max depth of {_DEPTH_LIMIT}")
        self._insert(number, Token(kind, mark, mark))

    def _unroll(self, column: int, scan_mark: Mark | None = None) -> None:
        if self.flow:
            return
        mark = scan_mark or self.mark
        while self.indent > column:
            self.tokens.append(Token("block-end", mark, mark))
            self.indent = self.indents.pop()

    def _stream_end(self) -> None:
        if self.column:
            self.column = 0
            self.line += 1
        self._unroll(-1)
        self._remove_key()
        self.key_allowed = False
        self.tokens.append(Token("stream-end", self.mark, self.mark))

    def _simple(self, kind: str, length: int = 1) -> None:
        start = self.mark
        self.skip(length)
        self.tokens.append(Token(kind, start, self.mark))

    def _document_indicator(self, character: str) -> None:
        self._unroll(-1)
        self._remove_key()
        self.key_allowed = False
        self._simple("document-start" if character == "-" else "document-end", 3)

    def _block_scalar(self) -> None:
        literal = self.text[self.index] == "|"
        self._remove_key()
        self.key_allowed = True
        self.tokens.append(scan_block(self, literal=literal))

    def _tag(self) -> None:
        self._save_key()
        self.key_allowed = False
        self.tokens.append(scan_tag(self))

    def _flow_start(self) -> None:
        is_sequence = self.text[self.index] == "["
        kind = "flow-sequence-start" if is_sequence else "flow-mapping-start"
        self._save_key()
        number = self.parsed + len(self.tokens)
        self.keys.append(_SimpleKey(number, self.mark, possible=False, required=False))
        self.flow += 1
        if self.flow > _DEPTH_LIMIT:
            raise self.error(self.mark, f"exceeded max depth of {_DEPTH_LIMIT}")
        self.key_allowed = True
        self._simple(kind)

    def _flow_end(self) -> None:
        kind = "flow-sequence-end" if self.text[self.index] == "]" else "flow-mapping-end"
        self._remove_key()
        if self.flow:
            self.flow -= 1
            self.keys_by_token.pop(self.keys.pop().number, None)
        self.key_allowed = False
        self._simple(kind)

    def _flow_entry(self) -> None:
        self._remove_key()
        self.key_allowed = True
        self._simple("flow-entry")

    def _block_entry(self) -> None:
        if not self.flow:
            if not self.key_allowed:
                raise self.error(
                    self.mark, "block sequence entries are not allowed in this context"
                )
            self._roll(self.column, -1, "block-sequence-start", self.mark)
        self._remove_key()
        self.key_allowed = True
        self._simple("block-entry")

    def _key(self) -> None:
        if not self.flow:
            if not self.key_allowed:
                raise self.error(self.mark, "mapping keys are not allowed in this context")
            self._roll(self.column, -1, "block-mapping-start", self.mark)
        self._remove_key()
        self.key_allowed = not self.flow
        self._simple("key")

    def _value(self) -> None:
        key = self.keys[-1]
        if self._is_valid(key):
            self._insert(key.number, Token("key", key.mark, key.mark))
            self._roll(key.mark.column, key.number, "block-mapping-start", key.mark)
            key.possible = False
            self.keys_by_token.pop(key.number, None)
            self.key_allowed = False
        else:
            if not self.flow:
                if not self.key_allowed:
                    raise self.error(self.mark, "mapping values are not allowed in this context")
                self._roll(self.column, -1, "block-mapping-start", self.mark)
            self.key_allowed = not self.flow
        self._simple("value")

    def _anchor(self) -> None:
        kind = "alias" if self.text[self.index] == "*" else "anchor"
        self._save_key()
        self.key_allowed = False
        start = self.mark
        self.skip()
        name = self.read_alpha()
        if not name or self.text[self.index] not in _AFTER_ANCHOR:
            raise self.error(start, "did not find expected alphabetic or numeric character")
        self.tokens.append(Token(kind, start, self.mark, name))

    def _directive(self) -> None:
        self._unroll(-1)
        self._remove_key()
        self.key_allowed = False
        self.tokens.append(scan_directive(self))
