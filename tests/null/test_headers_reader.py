"""The reader of a header's C text, with a small header of every kind of declaration."""

from __future__ import annotations

import copy
import ctypes
import pickle
import struct
import sys
from typing import Any

import pytest

from tests.subject import module

cuda_h, reader, c_types = (module(f"headers.{name}") for name in ("cuda_h", "reader", "c_types"))

FUNCTIONS = r"""
/* A chapter, in which aFind( is only mentioned */
Status aFind(Thing *out, const char * const *names, Colour colour);   // 1.2  find aFind(s) by name
Status aFindAll(Pair pair, Where where, float weight, Told told, void *data, Mask mask,
        unsigned int count);   // 3.4 abi=3.1 ptsz  find all
const char *aName(Status status);   // 1.0 old  get a name
"""
ENUMS = r"""
enum Status {
    A_OK = 0,
    A_FAIL = 7,   // 2.0  it failed
};
enum Colour {
    RED = -1,
    BLUE = 2147483647,
    AZURE = 2147483647,
};
#define A_LIMIT 4294967295   // 2.0  a limit
#define A_LIMITS 2
"""
TYPES = r"""
typedef unsigned int Mask;   // bits
typedef struct thing_st *Thing;   // 2.0  a thing
typedef void (*Told)(Thing thing, Status status, char *text, size_t length);
        // 2.1  tells
struct Pair {   // 1.1  two numbers
    int a;
    long long b;
};
struct Node {
    struct {
        unsigned int low : 3;
        unsigned int high : 5;
    } bits;
    char name[8];
    float table[2][3];
    const char *text;
    Colour colour;
    Status status;
    Thing thing;
    Told told;
    Mask mask;
    Node *next;
    void **where;
    union {
        int number;
        double real;
        struct {
            unsigned char x;
            unsigned char y;
        } point;
    };
    Pair pairs[2];
};
struct Where {   // a place
    int kind;
    union {
        int id;
        unsigned char parts[4];
    };
};
struct Far {
    _Alignas(256) unsigned long long words[4];
};
union Either {
    int i;
    float f;
};
typedef Node Knot;
typedef Status Result;
"""


@pytest.fixture
def header() -> Any:
    """A reader of the small header that has read nothing yet."""
    return reader.Header(__name__, lambda: iter((FUNCTIONS,)), lambda: ENUMS, lambda: TYPES)


def test_a_name_is_found_and_not_a_part_of_one(header: Any) -> None:
    table = header.prototypes
    assert "aFind" in table and "Find" not in table and "aFin" not in table and "aFind(" not in table
    assert "aFindAll_ptsz" in table and "aFindAll_ptds" not in table and "aFind_ptsz" not in table
    assert 5 not in table and "" not in table and "a b" not in table and table.get("no", 3) == 3
    with pytest.raises(KeyError, match="'aLose'"):
        table["aLose"]
    assert table["aFind"] is table["aFind"] and table["aFind"].doc == "find aFind(s) by name"
    assert list(table) == ["aFind", "aFindAll", "aFindAll_ptsz", "aName"] and len(table) == 4
    assert [each.name for each in table.values()] == list(table.keys()) == [name for name, _ in table.items()]


def test_a_prototype(header: Any) -> None:
    table = header.prototypes
    every = table["aFindAll"]
    assert (every.since, every.abi, every.old, every.marks) == ((3, 4), (3, 1), False, ["abi=3.1", "ptsz"])
    assert table["aName"].old and table["aName"].abi == (1, 0) and table["aName"].returns is ctypes.c_char_p
    assert every.returns is ctypes.c_int and table["aFindAll_ptsz"].since == (7, 0)
    assert "aFindAll_ptsz(Pair pair, " in repr(table["aFindAll_ptsz"])
    kinds = dict(every.parameters)
    assert issubclass(kinds["pair"], header.look_up("Pair")) and kinds["where"] is not header.look_up("Where")
    assert issubclass(kinds["told"], c_types.Callback) and kinds["weight"] is c_types.Float
    assert every.parameter_texts["told"] == "Told" and every.machine_types[2] is ctypes.c_float
    names = dict(table["aFind"].parameters)["names"]
    assert names is ctypes.POINTER(ctypes.c_char_p)


def test_a_structure_with_everything(header: Any) -> None:
    node = header.look_up("Node")
    assert node is header.look_up("Knot") and node.__name__ == "Node" and node.__module__ == __name__
    one = node(name=tuple(b"abcdefgh"), real=1.5, text=b"text", colour=-1, status=7)
    one.bits.low, one.bits.high = 9, 33
    assert (one.bits.low, one.bits.high) == (1, 1)  # cut to their bits
    assert type(one.point).__module__ == __name__
    assert bytes(one.name) == b"abcdefgh" and one.text == b"text" and (one.colour, one.status) == (-1, 7)
    assert one.number == struct.unpack("<i", struct.pack("<d", 1.5)[:4])[0]
    one.point.x = 5
    assert one.real != 1.5
    one.next = ctypes.pointer(one)
    assert one.next.contents.text == b"text" and one.table[1][2] == 0.0 and len(one.table) == 2
    called: list[Any] = []
    told = header.look_up("Told")
    one.told = told(lambda *arguments: called.append(arguments))
    one.told(header.look_up("Thing")(5), 7, ctypes.create_string_buffer(b"words"), 5)
    [(thing, status, text, length)] = called
    assert thing.value == 5 and status == 7 and text[:length] == b"words"
    assert ctypes.sizeof(node) == 136 and node.real.offset == 96 and node.pairs.offset == 104  # as a C compiler says


@pytest.mark.parametrize("name", ["Pair", "Where"])
def test_a_structure_that_is_passed_by_value_takes_no_address(header: Any, name: str) -> None:
    structure, kind = header.look_up(name), header.type_of(name)
    given = structure(5)
    taken = kind.from_param(given)
    assert bytes(taken) == bytes(given) and bytes(kind.from_param(taken)) == bytes(given)
    for wrong in ctypes.byref(given), ctypes.pointer(given), bytes(given), None:
        with pytest.raises(TypeError, match=f"^this takes a {name} itself, not "):
            kind.from_param(wrong)


def test_there_is_one_class_of_a_structure_after_an_interrupt_of_any_line(header: Any) -> None:
    class Interrupt(BaseException):
        pass

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != reader.__file__:
            return None
        left -= event == "line"
        if event == "line" and left == 0:
            raise Interrupt
        return trace

    was, steps, left = sys.gettrace(), 0, 0
    while left <= 0:
        steps += 1
        left, made = steps, copy.copy(header)
        made._made, made._begun, made._parameters = {}, {}, dict(header._parameters)
        sys.settrace(trace)
        try:
            made.look_up("Node")
        except Interrupt:
            pass
        finally:
            sys.settrace(was)
        node, knot, pair = (made.look_up(name) for name in ("Node", "Knot", "Pair"))
        members = dict(each[:2] for each in node._fields_)
        assert node is knot is made.look_up("Node") is members["next"]._type_ and pair is members["pairs"]._type_
    assert steps > 100


def test_a_structure_is_filled_as_a_c_initializer_fills_it(header: Any) -> None:
    where = header.look_up("Where")
    assert (where(1, 2).kind, where(1, 2).id, where(1, id=3).id, where().id) == (1, 2, 3, 0)
    assert list(where(0, parts=(1, 2, 3, 4)).parts) == [1, 2, 3, 4] and where.__doc__ == "A place."
    with pytest.raises(TypeError, match="Where takes 2 values, not 3"):
        where(1, 2, 3)
    with pytest.raises(TypeError, match="id is given by its position and by its name"):
        where(1, 2, id=3)
    assert where.from_buffer_copy(bytes(where(4, 5))).id == 5 and copy.copy(where(4, 5)).id == 5


def test_a_structure_with_a_union_is_passed_by_value(header: Any) -> None:
    where, kind = header.look_up("Where"), dict(header.prototypes["aFindAll"].parameters)["where"]
    got: list[Any] = []
    listener = ctypes.CFUNCTYPE(ctypes.c_int, kind)(lambda value: got.append((value.kind, value.id)) or 0)
    call = ctypes.CFUNCTYPE(ctypes.c_int, kind)(ctypes.cast(listener, ctypes.c_void_p).value)
    assert call(where(3, 4)) == 0 and call(kind(5, 6)) == 0 and got == [(3, 4), (5, 6)]
    for wrong in (None, 1, header.look_up("Pair")(1, 2), (3, 4)):
        with pytest.raises(ctypes.ArgumentError, match="takes a Where itself, not "):
            call(wrong)


def test_alignment(header: Any) -> None:
    far = header.look_up("Far")
    made = [far() for _ in range(20)] + [far((1, 2, 3, 4))]
    assert all(ctypes.addressof(each) % 256 == 0 for each in made) and list(made[-1].words) == [1, 2, 3, 4]
    assert ctypes.addressof(cuda_h.CUtensorMap()) % 128 == 0 and ctypes.sizeof(cuda_h.CUtensorMap) == 128


def test_enumerations(header: Any) -> None:
    status, colour = header.look_up("Status"), header.look_up("Colour")
    assert status is header.look_up("Result") and status.A_FAIL == 7 and colour.AZURE is colour.BLUE
    assert header.look_up("RED") == -1 and header.look_up("A_LIMIT") == 2**32 - 1 and header.look_up("A_LIMITS") == 2
    assert header.enum("Colour") == {"RED": -1, "BLUE": 2**31 - 1, "AZURE": 2**31 - 1}
    assert header.enum("#define") == {"A_LIMIT": 2**32 - 1, "A_LIMITS": 2} and header.enums() == ["Status", "Colour"]
    for name in ("A_LIM", "A", "Colou", "a", "low", "next", "thing_st", "size_t", "enum", "point"):
        assert header.look_up(name) is None, name
    with pytest.raises(KeyError):
        header.enum("Shape")
    assert pickle.loads(pickle.dumps(cuda_h.CUresult(700))) is cuda_h.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS


def test_names_are_all_there(header: Any) -> None:
    kept = {"own": 1}
    names = header.all_names(kept)
    assert {"own", "Node", "Knot", "Told", "Thing", "Mask", "Status", "RED", "A_LIMIT"} <= set(names)
    for name in names:
        if name != "own":
            assert header.attribute(name, kept) is kept[name]
    with pytest.raises(AttributeError, match="has no attribute 'Shape'"):
        header.attribute("Shape", kept)
    with pytest.raises(KeyError, match="Shape is not a type of"):
        header.type_of("const Shape *")


@pytest.mark.parametrize("value", [0, 1, 2**40, 1.5, -0.0, 1e30, ctypes.c_float(2.5), float("inf")])
def test_a_float_takes_numbers(value: Any) -> None:
    assert c_types.Float.from_param(value).value == ctypes.c_float(getattr(value, "value", value)).value


@pytest.mark.parametrize("value", [True, None, "1", b"1", 1j, [1.0], ctypes.c_double(1)])
def test_a_float_takes_nothing_else(value: Any) -> None:
    with pytest.raises(TypeError, match="float takes a number, not "):
        c_types.Float.from_param(value)


def test_looking_one_name_up_reads_only_its_lines(header: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other declarations may be nonsense."""
    text = FUNCTIONS + "Status aBroken(Nonsense\n"
    other = reader.Header(__name__, lambda: iter((text,)), lambda: ENUMS, lambda: TYPES + "\nstruct Broken {\n    x\n")
    assert other.prototypes["aFind"].parameters and other.look_up("Node") and other.look_up("Status")


def test_importing_the_table_reads_no_text(python: Any) -> None:
    result = python(
        """
        import sys
        from tests.subject import NAME, module
        table = module("headers.cuda_h")
        def headers():
            return {name.rpartition(".")[2] for name in sys.modules if name.startswith(NAME + ".headers.")}
        texts = {"functions", "functions_graphs", "functions_arrays", "functions_system", "structures", "enumerations"}
        print(sorted(headers() & texts), "enum" in sys.modules)
        table.prototypes()["cuInit"].parameters, table.CUcontext
        print(sorted(headers() & texts))
        """,
        flags=("-S",),
    )
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first.startswith("[] ") and second == "['functions', 'structures']"


def test_every_size_is_that_of_64_bits() -> None:
    assert sys.maxsize > 2**32 and ctypes.sizeof(cuda_h.CUgraphNodeParams) == 256
    node = cuda_h.CUgraphNodeParams(type=cuda_h.CU_GRAPH_NODE_TYPE_MEMSET)
    node.memset.width = 4
    assert node.asBytes[32] in (0, 4) and node.type == cuda_h.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
