"""PTX text to tokens.

A token is a kind and a text. Its place is an offset; the line is computed only for messages. Comments, white space and
preprocessor line markers are dropped. Nothing is evaluated: a number stays text until declare.py reads it with int().

Source       PTX ISA, "Syntax": comments, identifiers, constants
Read next    parser.py
"""

from __future__ import annotations

import re
from bisect import bisect_right

from .syntax import Rejected

__all__ = ["EOF", "NUMBER", "PUNCTUATION", "STRING", "TOKEN_LIMIT", "Tokens", "WORD"]

WORD, NUMBER, STRING, PUNCTUATION, EOF = "word", "number", "string", "punctuation", "end of text"

TOKEN_LIMIT = 4_000_000  # about 30 MB of text; no real module has more

# A group that may match any number of times takes a hundred bytes and more for each time, so its number has a limit.
_TOKEN = re.compile(
    r"""
      (?P<word> \. [A-Za-z_] \w* (?: :: [\w$.]+ ){0,99} | [%A-Za-z_$] [\w$.]* (?: :: [\w$.]+ ){0,99} )
    | (?P<punctuation> [][{}(),;:=+\-*&|^~!@<>?] | /(?![/*]) )
    | (?P<space> [ \t\r\n\f\v]+ | //[^\n]*\n? | /\*.*?\*/ )
    | (?P<number> 0[fF][0-9a-fA-F]{8}\b | 0[dD][0-9a-fA-F]{16}\b | 0[xX][0-9a-fA-F]+U?\b | 0[bB][01]+U?\b
                | (?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ | [0-9]+U?\b )
    | (?P<string> "[^"\\\n]*(?:\\.[^"\\\n]*){0,9999}" )
    | (?P<stray> . )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_MARK = re.compile(r"^[ \t]*#[ \t]*(?:line[ \t]+)?[0-9]+[^\n]*$", re.MULTILINE)


class Tokens:
    """The tokens of one text, with a cursor.

    `kind` and `text` are the token at the cursor; `advance()` moves the cursor; `line()` returns its line.
    """

    def __init__(self, text: str) -> None:
        if "#" in text:
            text = _MARK.sub("", text)
        self.source = text
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.places: list[int] = []
        self._breaks: list[int] | None = None
        self._unclosed = False  # whether a section was not closed
        # what a token names, of labels, variables and functions: only a linker asks for it
        self.named: dict[int, object] | None = None
        self._scan(text)
        self.at = 0
        self.kind = self.kinds[0]
        self.text = self.texts[0]

    def _scan(self, text: str) -> None:
        at: int | None = 0
        while at is not None:
            at = self._scan_from(text, at)
        self.kinds.append(EOF)
        self.texts.append("")
        self.places.append(len(text))

    def _scan_from(self, text: str, at: int) -> int | None:
        """Add the tokens from an offset on to the end, or to a debug section; return the offset after it, or None."""
        kinds, texts, places = self.kinds, self.texts, self.places
        for found in _TOKEN.finditer(text, at):
            kind = found.lastgroup
            if kind == "space":
                continue
            if kind is None or kind == "stray":
                raise self._stray(found.start())
            if kind == STRING and not found.group().isascii():  # (comments may have others in newer versions of ptxas)
                raise Rejected.at(self.line_of(found.start()), "Unexpected non-ASCII character in a string")
            kinds.append(kind)
            texts.append(found.group())
            places.append(found.start())
            if len(kinds) > TOKEN_LIMIT:
                raise Rejected.at(self.line_of(found.end()), f"More than {TOKEN_LIMIT} tokens")
            if texts[-1] == ".section":
                return self._after_section(found.end())
        return None

    def _stray(self, at: int) -> Rejected:
        text = self.source
        if text.startswith("/*", at):
            return Rejected.at(self.line_of(at), "Unterminated comment")
        if text.startswith('"', at):
            return Rejected.at(self.line_of(at), "Unterminated string")
        return Rejected.at(self.line_of(at), f"Unexpected character {text[at]!a}")

    def _after_section(self, at: int) -> int:
        """Skip a debug section, which can be megabytes of .b8 and does not affect the kernel.

        The name and the braces stay tokens; the content is dropped.
        """
        opened = self.source.find("{", at, at + 257)
        if opened >= 0 and not self._unclosed:
            closed = self.source.find("}", opened)
        else:
            closed = -1
        if closed < 0:
            self._unclosed = self._unclosed or opened >= 0  # no later section is closed either
            return at
        self.kinds += [WORD, PUNCTUATION, PUNCTUATION]
        self.texts += [self.source[at:opened].strip(), "{", "}"]
        self.places += [at, opened, closed]
        return closed + 1

    def advance(self) -> str:
        """Move to the next token, and return the text of the previous one."""
        text = self.text
        at = self.at
        if at < len(self.kinds) - 1:
            self.at = at = at + 1
            self.kind = self.kinds[at]
            self.text = self.texts[at]
        return text

    def note(self, found: object) -> None:
        """Note what the token at the cursor names."""
        if self.named is not None:
            self.named[self.at] = found

    def line(self) -> int:
        """Return the line of the token at the cursor, counted from 1."""
        return self.line_of(self.places[self.at])

    def line_of(self, place: int) -> int:
        """Return the line of an offset in the text."""
        if self._breaks is None:
            self._breaks = [found.start() for found in re.finditer("\n", self.source)]
        return bisect_right(self._breaks, place - 1) + 1

    def fail(self, message: str) -> Rejected:
        """Return (do not raise) a rejection at the cursor."""
        return Rejected.at(self.line(), message)

    def unexpected(self, wanted: str = "") -> Rejected:
        """Return (do not raise) a rejection of the token at the cursor."""
        if self.kind == EOF:
            return self.fail("Parsing error: the text ends too early" + (f", expected {wanted}" if wanted else ""))
        if len(self.text) <= 60:
            near = self.text
        else:
            near = self.text[:57] + "..."
        return self.fail(f"Parsing error near {near!a}: {'expected ' + wanted if wanted else 'syntax error'}")

    def accept(self, text: str) -> bool:
        """Skip a text if it is at the cursor."""
        if self.text == text and self.kind != STRING:
            self.advance()
            return True
        return False

    def expect(self, text: str) -> None:
        """Skip a text, or raise a rejection."""
        if not self.accept(text):
            raise self.unexpected(repr(text))
