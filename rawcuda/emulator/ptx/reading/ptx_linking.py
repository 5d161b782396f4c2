"""Several PTX texts to one: what the linker of a driver does, on the level of the text.

What it is   `Unit`, a text that was added, with the functions and variables outside of all braces; and `Merger`, which
             resolves names across the units and writes one text.
How          the text is copied as it is written, except: names that only their own text knows are renamed where two
             texts use the same; a weak definition that another one replaces becomes a declaration; the numbers of .file
             are made distinct; debug sections are left out.
What not     it compiles nothing. Each text was parsed before, so its punctuation is sound.
Source       PTX ISA, "Linking Directives: .extern, .visible, .weak, .common". The messages are those of the JIT linker.
Read next    parser.py
"""

from __future__ import annotations

from ...machine.codes import UNKNOWN
from .header import NEWEST
from .lexer import EOF, NUMBER, STRING, WORD, Tokens
from .parser import LINKAGE, parse
from .syntax import Function, Module, Rejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Merger", "Unit"]

INVALID_SOURCE = 300  # CUDA_ERROR_INVALID_SOURCE
_SPACES = (".global", ".const", ".shared")
_BUILTINS = frozenset(("vprintf", "__assertfail", "malloc", "free"))  # functions that every driver defines
_STRENGTH = {"extern": 0, "weak": 1, "common": 1, "": 2, "visible": 2}


class Item:
    """A declaration or definition outside of all braces: the tokens first to last, and what they declare.

    kind     "entry", "func" or the state space of variables
    linkage  "visible", "extern", "weak", "common", or "": only its own text knows the names
    names    one function, or some variables
    body     the token of the "{" of a function or of the "=" of a variable's initial value, or None
    """

    __slots__ = ("first", "last", "kind", "linkage", "names", "body", "starts")

    def __init__(self, first: int, kind: str, linkage: str) -> None:
        self.first = self.last = self.starts = first
        self.kind, self.linkage = kind, linkage
        self.names: list[str] = []
        self.body: int | None = None

    @property
    def defines(self) -> bool:
        """Tell whether this is a definition: a function with a body, a variable that is not .extern."""
        return self.linkage != "extern" and (self.kind not in ("entry", "func") or self.body is not None)


class Unit:
    """A text to link.

    raises  Rejected   as the compiler rejects it
    """

    def __init__(self, text: str, name: str, architecture: tuple[int, int], newest: tuple[int, int] = NEWEST) -> None:
        self.name = name
        self.module: Module = parse(text, architecture, newest)
        self.tokens = Tokens(text)
        self.files: list[tuple[int, int]] = []  # the tokens of each .file outside of all braces
        self.items = list(self._items())
        self.names = {name for item in self.items for name in item.names}
        self.outer = {name: item for item in self.items for name in item.names if not item.linkage}
        self.shapes: dict[str, tuple[str, object]] = {}  # of the names that were compared
        self.uses = self._uses()

    def _items(self) -> Iterator[Item]:
        texts, kinds = self.tokens.texts, self.tokens.kinds
        at, end = 0, len(texts) - 1
        while at < end:
            first, linkage = at, ""
            while texts[at] in LINKAGE:
                linkage = LINKAGE[texts[at]]
                at += 1
            word = texts[at]
            if word in (".entry", ".func"):
                item = Item(first, word[1:], linkage)
                at = self._function(item, at + 1)
                yield item
            elif word in _SPACES:
                item = Item(first, word[1:], linkage)
                at = self._variables(item, at + 1)
                yield item
            elif word == ".file":
                last = at + 1
                while kinds[last + 1] in (NUMBER, STRING) or texts[last + 1] == ",":
                    last += 1
                self.files.append((at, last))
                at = last + 1
            elif kinds[at] == WORD and word.startswith(".section"):
                at = self._closing(at + 1) + 1
            else:
                at += 1

    def _closing(self, at: int) -> int:
        """Return the token that closes the next bracket."""
        texts, depth = self.tokens.texts, 0
        while True:
            if texts[at] in ("{", "(", "["):
                depth += 1
            elif texts[at] in ("}", ")", "]"):
                depth -= 1
                if depth <= 0:
                    return at
            elif self.tokens.kinds[at] == EOF:
                return at - 1
            at += 1

    def _function(self, item: Item, at: int) -> int:
        texts, kinds = self.tokens.texts, self.tokens.kinds
        if texts[at] == "(":
            at = self._closing(at) + 1
        item.names.append(texts[at])
        while texts[at] not in (";", "{") and kinds[at] != EOF:
            if texts[at] in ("(", "["):
                at = self._closing(at) + 1
            else:
                at = at + 1
        if texts[at] == "{":
            item.body = at
            at = self._closing(at)
        item.last = at
        return at + 1

    def _variables(self, item: Item, at: int) -> int:
        texts, kinds = self.tokens.texts, self.tokens.kinds
        is_name = True
        while texts[at] != ";" and kinds[at] != EOF:
            word = texts[at]
            if word == ".attribute":
                at = self._closing(at)
            elif word == ".align":
                if texts[at + 1] == "(":
                    at = self._closing(at + 1)
                else:
                    at = at + 1
            elif word in ("{", "("):
                at = self._closing(at)
            elif word == ",":
                is_name = True
            elif is_name and kinds[at] == WORD and word[0] != ".":
                item.names.append(word)
                is_name = False
            at += 1
        item.last = at
        return at + 1

    def _uses(self) -> set[str]:
        """Return the words in bodies and initial values that may be names from other texts."""
        found: set[str] = set()
        texts, kinds = self.tokens.texts, self.tokens.kinds
        for item in self.items:
            if item.kind in ("entry", "func"):
                if item.body is not None:
                    span = range(item.body, item.last)
                else:
                    span = range(0)
            else:
                if item.linkage != "extern":
                    span = range(item.first, item.last)
                else:
                    span = range(0)
            found.update(texts[at] for at in span if kinds[at] == WORD)
        return found

    def shape(self, name: str) -> tuple[str, object]:
        """Return what declarations of a name must have in common: its space, and its sizes."""
        if name not in self.shapes:
            function = self.module.functions.get(name)
            if function is not None:
                self.shapes[name] = "function", _prototype(function)
            else:
                variable = self.module.variables[name]
                self.shapes[name] = variable.space, variable.size
        return self.shapes[name]


def _prototype(function: Function) -> object:
    return (
        function.entry,
        [variable.size for variable in function.parameters],
        [variable.size for variable in function.returns],
        [register.type for register in function.parameter_registers],
        [register.type for register in function.return_registers],
    )


class Merger:
    """The units of a link, in the order in which they were added."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.winner: dict[str, tuple[Unit, Item]] = {}

    def add(self, unit: Unit) -> None:
        """Add a unit.

        raises  Rejected   a symbol that an earlier unit defines, or declares with another size or space
        """
        said: list[str] = []
        winner: dict[str, tuple[Unit, Item]] = {}  # of the names of this unit
        for item in unit.items:
            for name in item.names:
                if not item.linkage and item.kind != "entry":
                    continue
                there = winner.get(name) or self.winner.get(name)
                if there is None:
                    winner[name] = unit, item
                    continue
                said += _conflicts(name, there, unit, item)
                strength = _strength(item)
                if there[0] is not unit and min(strength, _strength(there[1])) == 2:
                    said.append(f"Multiple definition of '{name}' in '{unit.name}', first defined in '{there[0].name}'")
                if strength > _strength(there[1]):
                    winner[name] = unit, item
        if said:
            raise Rejected(INVALID_SOURCE, "".join(f"error   : {line}\n" for line in dict.fromkeys(said)).rstrip("\n"))
        self.units.append(unit)
        self.winner.update(winner)

    def complete(self) -> str:
        """Return the linked text.

        raises  Rejected   symbols that are used and not defined
        """
        said = [
            f"error   : Undefined reference to '{name}' in '{unit.name}'"
            for unit in self.units
            for name in sorted(unit.uses)
            if name in self.winner
            and name not in unit.outer
            and name not in _BUILTINS
            and not self.winner[name][1].defines
            and self.winner[name][1].kind != "shared"  # the dynamic shared memory, which the launch defines
            and name in unit.names
        ]
        if said:
            raise Rejected(UNKNOWN, "\n".join(dict.fromkeys(said)))
        version = max(unit.module.version for unit in self.units)
        target = max(self.units, key=lambda unit: (unit.module.architecture, unit.module.target)).module.target
        made = [f".version {version[0]}.{version[1]}\n.target {target}\n.address_size 64\n"]
        files = 0
        taken: dict[str, int] = {}  # name: in how many units it is
        for unit in self.units:
            for name in unit.names:
                taken[name] = taken.get(name, 0) + 1
        for number, unit in enumerate(self.units):
            renamed = {}
            for name in sorted(unit.outer):
                if taken[name] > 1 and unit.outer[name].kind != "entry":
                    renamed[name] = f"{name}$unit{number}"
                    while renamed[name] in taken:
                        renamed[name] += "_"
                    taken[renamed[name]] = 1
            made += self._written(unit, renamed, files)
            files += max(unit.module.files, default=0)
        return "".join(made)

    def _written(self, unit: Unit, renamed: dict[str, str], files: int) -> Iterator[str]:
        """Yield the text of a unit with other names, and with other numbers for its files."""
        yield f"\n// {''.join(each if each.isprintable() else '?' for each in unit.name)}\n"
        for first, last in unit.files:
            yield self._copied(unit, first, last, {}, files)
        declared: set[str] = set()
        for item in unit.items:
            if item.defines and item.linkage in ("weak", "common") and not self._wins(unit, item):
                for name in item.names:
                    if name not in declared:
                        declared.add(name)
                        yield self._declaration(unit, item, renamed)
                        break
                continue
            yield self._copied(unit, item.first, item.last, renamed, files)

    def _wins(self, unit: Unit, item: Item) -> bool:
        return any(self.winner[name][0] is unit and self.winner[name][1].defines for name in item.names)

    def _declaration(self, unit: Unit, item: Item, renamed: dict[str, str]) -> str:
        """Return the text of a definition as a declaration, because another unit has the definition that is used."""
        texts = unit.tokens.texts
        first = item.first
        while texts[first] in LINKAGE:
            first += 1
        if item.kind == "func" and item.body is not None:
            head = self._copied(unit, first, item.body - 1, renamed, 0)
            return f".extern {head.rstrip()};\n"
        at, end = first, item.last
        while at < end and texts[at] != "=":
            at += 1
        return f".extern {self._copied(unit, first, at - 1, renamed, 0).rstrip()};\n"

    def _copied(self, unit: Unit, first: int, last: int, renamed: dict[str, str], files: int) -> str:
        """Return the text from a token to another, with renamed words and renumbered files."""
        tokens = unit.tokens
        texts, kinds, places, source = tokens.texts, tokens.kinds, tokens.places, tokens.source
        made, start = [], places[first]
        for at in range(first, last + 1):
            word = texts[at]
            if kinds[at] == WORD and word in renamed:
                # (a word after one of these is an opcode, which may be spelled like the name, unless it is a label)
                if at > first and texts[at - 1] in (";", "{", "}", ":") and texts[at + 1] != ":":
                    continue
                new = renamed[word]
            elif (
                files and kinds[at] == NUMBER and texts[at - 1] in (".loc", ".file", "inlined_at") and word.isdecimal()
            ):
                new = str(int(word) + files)
            else:
                continue
            made.append(source[start : places[at]] + new)
            start = places[at] + len(word)
        made.append(source[start : places[last] + len(texts[last])] + "\n")
        return "".join(made)


def _strength(item: Item) -> int:
    if item.defines:
        return _STRENGTH[item.linkage]
    return 0


def _conflicts(name: str, there: tuple[Unit, Item], unit: Unit, item: Item) -> Iterator[str]:
    """Yield how a declaration differs from an earlier one in another unit."""
    if there[0] is unit:
        return
    (space, size), (other, before) = unit.shape(name), there[0].shape(name)
    what = f"'{name}' in '{unit.name}', first specified in '{there[0].name}'"
    if space != other:
        yield f"Memory space doesn't match for {what}"
    elif size != before and size and before and item.linkage != "common":  # extern arrays may have no size
        yield f"{'Prototype' if space == 'function' else 'Size'} doesn't match for {what}"
