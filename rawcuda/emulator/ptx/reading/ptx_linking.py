"""Several PTX texts to one: what the linker of a driver does, on the level of the text.

What it is   `Unit`, a text that was added, with the functions and variables outside of all braces; and `Merger`, which
             resolves names across the units and writes one text.
How          the text is copied as it is written, except: names that only their own text knows, and labels, are renamed
             where another text has the same name for something else; a weak definition that another one replaces
             becomes a declaration; the numbers of .file are made distinct; debug sections are left out. What a word
             names is what the parser found: a register may have the name of a variable, and an opcode that of a
             function.
What not     it compiles nothing. Each text was parsed before, so its punctuation is sound.
Source       PTX ISA, "Linking Directives: .extern, .visible, .weak, .common". The messages are those of the JIT linker.
Read next    parser.py
"""

from __future__ import annotations

from ...machine.codes import UNKNOWN
from .header import NEWEST
from .lexer import EOF, NUMBER, STRING, WORD, Tokens
from .parser import LINKAGE, parse_tokens
from .syntax import Function, Label, Module, Name, Rejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Merger", "Unit"]

INVALID_SOURCE = 300  # CUDA_ERROR_INVALID_SOURCE
_SPACES = (".global", ".const", ".shared")
_BUILTINS = frozenset(("vprintf", "__assertfail", "malloc", "free"))  # functions that every driver defines
_STRENGTH = {"extern": 0, "common": 1, "weak": 2, "": 3, "visible": 3}


class Item:
    """A declaration or definition outside of all braces: the tokens first to last, and what they declare.

    kind     "entry", "func" or the state space of variables
    linkage  "visible", "extern", "weak", "common", or "": only its own text knows the names
    names    one function, or some variables
    spans    of each name: its token, and the last one of its parameters, or of its dimensions and initial value
    body     the token of the "{" of a function, or None
    """

    __slots__ = ("first", "last", "kind", "linkage", "names", "spans", "body")

    def __init__(self, first: int, kind: str, linkage: str) -> None:
        self.first = self.last = first
        self.kind, self.linkage = kind, linkage
        self.names: list[str] = []
        self.spans: list[tuple[int, int]] = []
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
        self.tokens = Tokens(text)
        self.tokens.named = {}
        self.module: Module = parse_tokens(self.tokens, architecture, newest)
        self.files: list[tuple[int, int]] = []  # the tokens of each .file outside of all braces
        self.items = list(self._items())
        self._join_linkages()
        self.names = {name for item in self.items for name in item.names}
        self.outer = {name: item for item in self.items for name in item.names if not item.linkage}
        self.shapes: dict[str, tuple[str, object]] = {}  # of the names that were compared
        self.uses = self._uses()
        self.labels: set[str] = set()
        self.places = set(self._places(self.tokens.named))  # the tokens of names that may be renamed
        self.tokens.named = None

    def _join_linkages(self) -> None:
        """Give a definition without a linkage that of the declaration before it, as ptxas does."""
        linkages: dict[str, str] = {}
        for item in self.items:
            for name in item.names:
                item.linkage = item.linkage or linkages.get(name, "")
                if item.linkage != "extern":
                    linkages[name] = item.linkage

    def _places(self, named: dict[int, object]) -> Iterator[int]:
        """Yield the tokens that name a label, or what only this text knows; and note the labels."""
        texts, functions, variables = self.tokens.texts, self.module.functions, self.module.variables
        for item in self.items:
            for name, (at, _) in zip(item.names, item.spans):
                if name in self.outer:
                    yield at
        for at, found in named.items():
            name = texts[at]
            if isinstance(found, Name):  # it may be declared later
                found = found.scope.find_label(name) or found.scope.find(name) or functions.get(name)
            if name in self.outer:
                if found is functions.get(name) or found is variables.get(name):
                    yield at
            elif isinstance(found, Label):
                self.labels.add(name)
                yield at

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
        item.spans.append((at, self._closing(at + 1) if texts[at + 1] == "(" else at))
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
        is_name, place = True, at
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
                item.spans.append((place, at - 1))
            elif is_name and kinds[at] == WORD and word[0] != ".":
                item.names.append(word)
                is_name, place = False, at
            at += 1
        item.spans.append((place, at - 1))
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
                if there[0] is not unit and min(strength, _strength(there[1])) == _STRENGTH["visible"]:
                    said.append(f"Multiple definition of '{name}' in '{unit.name}', first defined in '{there[0].name}'")
                if strength > _strength(there[1]) or strength == _STRENGTH["common"] and _grows(name, there, unit):
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
        words: set[str] = set()
        for unit in self.units:
            words.update(unit.tokens.texts)
            for name in unit.names:
                taken[name] = taken.get(name, 0) + 1
        for number, unit in enumerate(self.units):
            renamed = {}
            for name in sorted(unit.labels.union(unit.outer)):
                others = taken.get(name, 0) - (name in unit.names)
                if others and (name in unit.labels or unit.outer[name].kind != "entry"):
                    # (no digit stands at the end, for which a text could declare registers by a range)
                    renamed[name] = f"{name}$unit{number}_"
                    while renamed[name] in words:
                        renamed[name] += "_"
            made += self._written(unit, renamed, files)
            files += max(unit.module.files, default=0)
        return "".join(made)

    def _written(self, unit: Unit, renamed: dict[str, str], files: int) -> Iterator[str]:
        """Yield the text of a unit with other names, and with other numbers for its files."""
        yield f"\n// {''.join(each if each.isprintable() else '?' for each in unit.name)}\n"
        for first, last in unit.files:
            yield self._copied(unit, first, last, {}, files)
        for item in unit.items:
            if item.defines and item.linkage in ("weak", "common"):
                yield from self._of_winners(unit, item, renamed, files)
            else:
                yield self._copied(unit, item.first, item.last, renamed, files)

    def _of_winners(self, unit: Unit, item: Item, renamed: dict[str, str], files: int) -> Iterator[str]:
        """Yield a definition with those of its names that others do not replace, and a declaration of the others."""
        spans = [(span, self.winner[name][1] is item) for name, span in zip(item.names, item.spans)]
        kept, lost = [span for span, wins in spans if wins], [span for span, wins in spans if not wins]
        if not lost:
            yield self._copied(unit, item.first, item.last, renamed, files)
            return
        before = item.spans[0][0] - 1
        if kept:
            texts = (self._copied(unit, first, last, renamed, files).rstrip() for first, last in kept)
            yield f"{self._copied(unit, item.first, before, renamed, files)}{', '.join(texts)};\n"
        first = item.first
        while unit.tokens.texts[first] in LINKAGE:
            first += 1
        head = self._copied(unit, first, before, renamed, files)
        if item.kind in ("entry", "func"):
            names = self._copied(unit, *lost[0], renamed, files).rstrip()
        else:
            names = ", ".join(f"{unit.tokens.texts[at]}[]" for at, _ in lost)  # the definition has the size
        yield f".extern {head}{names};\n"

    def _copied(self, unit: Unit, first: int, last: int, renamed: dict[str, str], files: int) -> str:
        """Return the text from a token to another, with renamed words and renumbered files."""
        tokens = unit.tokens
        texts, kinds, places, source = tokens.texts, tokens.kinds, tokens.places, tokens.source
        made, start = [], places[first]
        for at in range(first, last + 1):
            word = texts[at]
            if at in unit.places and word in renamed:
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
    elif size != before and size and before:  # extern arrays may have no size
        if space == "function":
            yield f"Prototype doesn't match for {what}"
        elif "common" not in (item.linkage, there[1].linkage):
            yield f"Size doesn't match for {what}"
        elif item.linkage != there[1].linkage:
            yield from _uncommon(name, there, unit, item)


def _uncommon(name: str, there: tuple[Unit, Item], unit: Unit, item: Item) -> Iterator[str]:
    """Yield why a .common variable and one of another kind and size do not belong together."""
    if item.linkage == "common":
        common, other = unit, there[0]
    else:
        common, other = there[0], unit
    if not other.module.variables[name].initial:
        yield f"Size doesn't match for '{name}' in '{unit.name}', first specified in '{there[0].name}'"
    elif common.module.variables[name].size > other.module.variables[name].size:
        yield f"Common symbol '{name}' in file '{common.name}' has larger size than initialization"


def _grows(name: str, there: tuple[Unit, Item], unit: Unit) -> bool:
    """Tell whether a .common variable has more bytes than the .common one before, whose place it takes."""
    return there[1].linkage == "common" and unit.module.variables[name].size > there[0].module.variables[name].size
