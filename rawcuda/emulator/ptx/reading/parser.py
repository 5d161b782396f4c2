"""PTX tokens to a Module: directives, functions, statements, operands.

The parser knows the punctuation and the scopes of PTX, but no opcodes: ../translating/table/forms.py checks
instructions. Names are resolved here, except those after `bra` and `call`, which may be declared later. The depth of
recursion does not depend on the text.

Source       PTX ISA, "Directives", "Instruction Statements", "Instruction Operands"
Read next    syntax.py for the result; ../translating/table/forms.py for the check of instructions
"""

from __future__ import annotations

import re

from .declare import (
    SPACES,
    constant,
    register_declaration,
    register_parameter,
    variable_declaration,
    variable_declarations,
)
from .dividing import divided_load, divided_move
from .header import NEWEST, read_header
from .lexer import EOF, NUMBER, STRING, WORD, Tokens
from .operands import OperandReader
from .syntax import (
    BITS,
    Address,
    Function,
    Instruction,
    Int,
    Label,
    Module,
    Name,
    Prototype,
    Register,
    Rejected,
    Scope,
    Sum,
    Symbol,
    Variable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .syntax import Operand

__all__ = ["parse", "parse_tokens"]

DEEPEST_SCOPE = 64
LARGEST_PARAMETERS = 32764  # bytes; PTX ISA 8.1 and later, sm_70 and later
OLDER_PARAMETERS = 4352  # the same before
LINKAGE = {".visible": "visible", ".extern": "extern", ".weak": "weak", ".common": "common"}
_LIMITS = (
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".reqnctapercluster", ".maxclusterrank",
    ".explicitcluster", ".blocksareclusters", ".noreturn", ".pragma", ".abi_preserve", ".abi_preserve_control",
)  # fmt: skip
_OF_ENTRIES = frozenset("maxntid reqntid minnctapersm maxnctapersm maxnreg reqnctapercluster maxclusterrank "
                         "explicitcluster blocksareclusters".split())  # fmt: skip
_ALONE = (".explicitcluster", ".blocksareclusters", ".noreturn")  # limits without a number
_USED_BYTES = re.compile(r'"used_bytes_mask +(0[xX][0-9a-fA-F]{1,8}|[1-9][0-9]{0,9})"\Z')
_OPCODE = re.compile(r"[a-z][a-z0-9_]*(?:\.[\w:]+){0,99}\Z", re.ASCII)


def parse(text: str, architecture: tuple[int, int] = (99, 9), newest: tuple[int, int] = NEWEST) -> Module:
    """Read a whole PTX module.

    shape   architecture: the newest .target that can run; newest: the newest .version
    raises  Rejected   a .version that does not exist or is newer (222), a newer .target (209); a syntax error, with its
                       line
    """
    return parse_tokens(Tokens(text), architecture, newest)


def parse_tokens(tokens: Tokens, architecture: tuple[int, int], newest: tuple[int, int]) -> Module:
    """Read a whole PTX module from its tokens, as `parse` does."""
    return _Parser(tokens, architecture, newest).module()


class _Parser:
    """The reader of the statements of one module.

    Why long  it has a method for each statement of PTX, and all share the tokens and the scope
    """

    def __init__(self, tokens: Tokens, architecture: tuple[int, int], newest: tuple[int, int]) -> None:
        self.tokens = tokens
        self.architecture, self.newest = architecture, newest
        self.operands = OperandReader(tokens)
        self.made = Module()
        self.scope = Scope(None, None)  # the scope of the module
        self.used_bytes = 0  # the mask of a pragma for the next instruction

    # -- the module

    def module(self) -> Module:
        self._header()
        tokens = self.tokens
        while tokens.kind != EOF:
            if tokens.text in LINKAGE:
                linkage = LINKAGE[tokens.advance()]
            else:
                linkage = ""
            word = tokens.text
            if word in (".entry", ".func"):
                self._function(word == ".entry", linkage)
            elif word in SPACES and word not in (".local", ".param"):
                self._global_variables(linkage)
            elif word in (".reg", ".local", ".param"):
                raise tokens.fail(f"'{word}' is not allowed at module scope")
            elif not self._ignorable():
                raise tokens.unexpected("a directive")
        return self.made

    def _header(self) -> None:
        tokens, made = self.tokens, self.made
        while tokens.text in (".file", ".pragma"):
            self._ignorable()
        read_header(tokens, made, self.architecture, self.newest)
        if (made.version < (8, 3) or made.architecture < (7, 0)) and ".b128" in tokens.texts:
            line = tokens.line_of(tokens.places[tokens.texts.index(".b128")])
            words = "requires PTX ISA .version 8.3 or later, and .target sm_70 or higher"
            raise Rejected.at(line, f"Feature 'Type .b128' {words}")

    def _ignorable(self) -> bool:
        """Skip a directive that does not affect execution; tell whether there was one."""
        tokens = self.tokens
        word = tokens.text
        if word == ".file":
            tokens.advance()
            index = constant(tokens)
            if tokens.kind == STRING and isinstance(index, Int):
                self.made.files[index.value] = tokens.text[1:-1]
            tokens.advance()
            while tokens.accept(","):
                constant(tokens)
        elif word == ".loc":
            self._location()
        elif word == ".section":
            tokens.advance()
            tokens.advance()
            while tokens.text != "}" and tokens.kind != EOF:
                tokens.advance()
            tokens.expect("}")
        elif word == ".pragma":
            tokens.advance()
            while tokens.kind == STRING or tokens.text == ",":
                found = _USED_BYTES.match(tokens.advance())
                if found:
                    self.used_bytes = int(found.group(1), 0)
            tokens.accept(";")
        elif word == ".alias":
            raise tokens.fail("'.alias' is not emulated")
        else:
            return False
        return True

    def _location(self) -> None:
        tokens = self.tokens
        here = tokens.line()
        tokens.advance()
        numbers = [constant(tokens) for _ in range(3)]
        file, line, column = numbers
        if isinstance(file, Int) and isinstance(line, Int):
            self.made.locations.append((here, file.value, line.value, column.value if isinstance(column, Int) else 0))
        while tokens.accept(","):
            word = tokens.advance()
            if word == "function_name":
                tokens.advance()
                if tokens.accept("+"):
                    constant(tokens)
            elif word == "inlined_at":
                file, line = [constant(tokens) for _ in range(3)][:2]
                if isinstance(file, Int) and isinstance(line, Int):
                    self.made.inlined[here] = file.value, line.value
            else:
                raise tokens.unexpected()

    def _global_variables(self, linkage: str) -> None:
        tokens = self.tokens
        space = SPACES[tokens.advance()]
        for made in variable_declarations(tokens, self.scope, space, linkage):
            self.made.variables[made.name] = made

    # -- functions

    def _function(self, entry: bool, linkage: str) -> None:
        tokens = self.tokens
        line = tokens.line()
        tokens.advance()
        scope = Scope(self.scope, None)
        made = Function("", entry, line)
        scope.function = made
        returns: list[Variable] = []
        if tokens.text == "(":
            if entry:
                raise tokens.fail("An .entry returns nothing")
            returns = self._parameters(scope, made.return_registers)
        name = tokens.text
        if tokens.kind != WORD or name[0] == "." or name == "_":
            raise tokens.unexpected("a function name")
        tokens.advance()
        made.name, made.returns = name, returns
        if tokens.text == "(":
            made.parameters = self._parameters(scope, made.parameter_registers)
        if entry and any(not each.size for each in made.parameters):
            raise Rejected.at(line, "A parameter of an .entry cannot be an incomplete array")
        if entry and any(not each.scalar and each.element > BITS[each.type] // 8 for each in made.parameters):
            raise Rejected.at(line, "A vector cannot be a parameter of an .entry")
        if len(returns) > 1:
            raise Rejected.at(line, "Multiple return parameters require .reg state space")
        if entry and made.parameter_registers:
            raise Rejected.at(line, "Parameters of an .entry must be in .param space")
        self._lay_out(made)
        earlier = self.scope.names.get(name)
        if earlier is not None:
            if not isinstance(earlier, Function) or earlier.entry != entry:
                raise Rejected.at(line, f"Duplicate definition of '{name[:80]}'")
            self._same_shape(earlier, made, line)
            if earlier.body is None:
                earlier.parameters, earlier.returns, earlier.line = made.parameters, made.returns, line
                earlier.parameter_registers = made.parameter_registers
                earlier.return_registers, earlier.registers = made.return_registers, made.registers
                made, scope.function = earlier, earlier
            elif linkage != "extern":
                made.body = []
        else:
            made.index = len(self.made.functions)
            self.made.functions[name] = made
            self.scope.names[name] = made
        self._limits(made)
        if tokens.accept(";"):
            return
        if made.body is not None:
            raise Rejected.at(line, f"Duplicate definition of function '{name[:80]}'")
        made.scope = scope
        made.body = []
        self._body(made, scope)

    def _same_shape(self, earlier: Function, later: Function, line: int) -> None:
        def shape(function: Function) -> list[object]:
            variables = [[variable.size for variable in each] for each in (function.parameters, function.returns)]
            registers = [[r.type for r in each] for each in (function.parameter_registers, function.return_registers)]
            return [variables, registers]

        if shape(earlier) != shape(later):
            raise Rejected.at(line, f"Definition of '{later.name[:80]}' conflicts with its declaration")

    def _parameters(self, scope: Scope, registers: list[Register]) -> list[Variable]:
        tokens = self.tokens
        found: list[Variable] = []
        tokens.expect("(")
        while not tokens.accept(")"):
            if tokens.accept(".reg"):
                registers += register_parameter(tokens, scope)
            else:
                if not tokens.accept(".param"):
                    raise tokens.unexpected("'.param'")
                found.append(variable_declaration(tokens, scope, "param"))
            if tokens.text != ")":
                tokens.expect(",")
                if tokens.text == ")":
                    raise tokens.unexpected("a parameter")
        return found

    def _lay_out(self, made: Function) -> None:
        offset = 0
        for variable in made.parameters:
            offset = -(-offset // variable.alignment) * variable.alignment
            variable.offset = offset
            offset += variable.size
        if made.entry and offset > LARGEST_PARAMETERS:
            raise Rejected.at(made.line, f"Formal parameter space overflowed: {offset} bytes, max {LARGEST_PARAMETERS}")
        if made.entry and offset > OLDER_PARAMETERS:
            feature = f"Feature 'Kernel parameter size larger than {OLDER_PARAMETERS} bytes' requires"
            if self.made.architecture < (7, 0):
                raise Rejected.at(made.line, f"{feature} .target sm_70 or higher")
            if self.made.version < (8, 1):
                raise Rejected.at(made.line, f"{feature} PTX ISA .version 8.1 or later")

    def _limits(self, made: Function) -> None:
        tokens = self.tokens
        while tokens.text in _LIMITS:
            word = tokens.text
            if word == ".pragma":
                self._ignorable()
                continue
            tokens.advance()
            values: list[int] = []
            while word not in _ALONE:
                if tokens.kind != NUMBER:
                    raise tokens.unexpected("a number")
                value = constant(tokens)
                if isinstance(value, Int):
                    values.append(value.value)
                if not tokens.accept(","):
                    break
            if len(values) > 3 or word in (".maxntid", ".reqntid") and not all(values):
                raise tokens.fail(f"Positive non-zero values expected for {word}, at most three")
            made.limits[word[1:]] = tuple(values)
        limits = made.limits
        foreign = limits.keys() & ({"noreturn"} if made.entry else _OF_ENTRIES)
        if foreign:
            raise tokens.fail(f"'.{min(foreign)}' does not belong to this kind of function")
        for one, other in (("maxntid", "reqntid"), ("reqnctapercluster", "maxclusterrank")):
            if one in limits and other in limits:
                raise tokens.fail(f"Conflicting directives: .{one} and .{other} cannot both be specified")
        if "blocksareclusters" in limits and not ("reqntid" in limits and "reqnctapercluster" in limits):
            raise tokens.fail(".reqntid and .reqnctapercluster are required for .blocksareclusters")

    # -- statements

    def _body(self, made: Function, scope: Scope) -> None:
        """Read the statements; `scope` has the names of the parameters, and the outermost ones are declared in it."""
        tokens = self.tokens
        stack = [scope]
        body = made.body
        assert body is not None
        tokens.expect("{")
        while stack:
            kind, word = tokens.kind, tokens.text
            if kind == WORD:
                if word[0] == ".":
                    self._directive(made, stack[-1])
                elif tokens.texts[tokens.at + 1] == ":":
                    self._label(made, stack[-1])
                else:
                    body += self._instruction(stack[-1], None, False)
            elif word == "@":
                tokens.advance()
                negated = tokens.accept("!")
                guard = stack[-1].find(tokens.text)
                if not isinstance(guard, Register):
                    raise tokens.fail(f"Unknown symbol {tokens.text[:80]!a}")
                if guard.type != "pred":
                    raise tokens.fail("Guard of an instruction must be a predicate register")
                tokens.advance()
                if tokens.kind != WORD or tokens.text[0] in ".%$_":
                    raise tokens.unexpected("an instruction")
                body += self._instruction(stack[-1], guard, negated)
            elif word == "{":
                if len(stack) > DEEPEST_SCOPE:
                    raise tokens.fail("Scopes are nested too deeply")
                stack.append(Scope(stack[-1], made))
                tokens.advance()
            elif word == "}":
                stack.pop()
                tokens.advance()
            else:
                raise tokens.unexpected("an instruction")

    def _label(self, made: Function, scope: Scope) -> None:
        tokens = self.tokens
        place, line, name = tokens.at, tokens.line(), tokens.advance()
        tokens.advance()
        if tokens.text in (".branchtargets", ".calltargets", ".callprototype"):
            self._table(scope, name)
            return
        if name in scope.labels or name in scope.names and not scope.in_range(name):
            raise Rejected.at(line, f"Duplicate definition of label '{name[:80]}'")
        label = scope.labels[name] = Label(name, line)
        if tokens.named is not None:
            tokens.named[place] = label
        assert made.body is not None
        made.body.append(label)

    def _table(self, scope: Scope, name: str) -> None:
        """Read a prototype or a table for `call` and `brx.idx`."""
        tokens = self.tokens
        word = tokens.advance()
        if name in scope.names or name in scope.labels:
            raise tokens.fail(f"Duplicate definition of '{name[:80]}'")
        if word == ".callprototype":
            # the parameters of a prototype have no storage, and `_` may be the name of all of them
            if tokens.text == "(":
                returns = self._shapes()
            else:
                returns = []
            tokens.expect("_")
            if tokens.text == "(":
                parameters = self._shapes()
            else:
                parameters = []
            while tokens.accept(".noreturn"):
                pass
            scope.names[name] = Prototype(returns, parameters)
        else:
            labels = []
            while True:
                if tokens.kind != WORD:
                    raise tokens.unexpected("a name")
                labels.append(Name(tokens.text, scope))
                tokens.note(labels[-1])
                tokens.advance()
                if not tokens.accept(","):
                    break
            scope.names[name] = Prototype([], [], labels)
        tokens.expect(";")

    def _shapes(self) -> list[Variable]:
        tokens = self.tokens
        found: list[Variable] = []
        tokens.expect("(")
        while not tokens.accept(")"):
            if tokens.accept(".reg"):
                raise tokens.fail("'.reg' in a .callprototype is not emulated")
            tokens.expect(".param")
            found.append(variable_declaration(tokens, Scope(None, None), "param"))
            if tokens.text != ")":
                tokens.expect(",")
        return found

    def _directive(self, made: Function, scope: Scope) -> None:
        tokens = self.tokens
        word = tokens.text
        if word == ".reg":
            tokens.advance()
            register_declaration(tokens, scope)
        elif word in SPACES:
            tokens.advance()
            made.variables += variable_declarations(tokens, scope, SPACES[word])
        elif not self._ignorable():
            raise tokens.unexpected("a directive or an instruction")

    def _instruction(self, scope: Scope, guard: Register | None, negated: bool) -> list[Instruction]:
        tokens = self.tokens
        line = tokens.line()
        word = tokens.text
        if not _OPCODE.match(word):
            raise tokens.unexpected("an instruction")
        tokens.advance()
        while tokens.text[:1] == "." and tokens.kind == WORD:  # white space may separate modifiers
            word += tokens.advance()
        operands: list[Operand] = []
        sums: list[Sum] = []
        self.operands.sums = sums
        calls = word.startswith("call")
        if tokens.text != ";":
            while True:
                operands.append(self.operands.operand(scope, calls))
                if not tokens.accept(","):
                    break
        tokens.expect(";")
        words = word.split(".")
        if words[0] in ("ld", "st", "ldu"):  # `ld.u32 %r1, name[4]` is an address without brackets
            at = int(words[0] != "st")
            if at < len(operands):
                found = operands[at]
            else:
                found = None
            if isinstance(found, Symbol) and isinstance(found.target, Variable) and not found.target.scalar:
                operands[at] = Address(found, 0)
        made = Instruction(line, guard, negated, words, operands, scope)
        return [*_additions(sums, line, scope), *self._divided(made)]

    def _divided(self, made: Instruction) -> list[Instruction]:
        """Divide a move of vectors, and a load of which not all bytes are used, into simpler instructions."""
        used, self.used_bytes = self.used_bytes, 0
        if made.opcode == "mov" and made.modifiers:
            count = made.modifiers[0]
        else:
            count = ""
        if count in ("v2", "v4"):
            return divided_move(made)
        if used and made.opcode == "ld":
            return divided_load(made, used)
        return [made]


def _additions(sums: list[Sum], line: int, scope: Scope) -> list[Instruction]:
    """Return the additions that compute the operands of an instruction of the form `%r1 + 4`."""
    made = []
    for each in sums:
        bits = BITS[each.type]
        terms: list[Operand] = [each, each.of, Int(each.number & (1 << bits) - 1)]
        made.append(Instruction(line, None, False, ["add", f"u{bits}"], terms, scope))
    return made
