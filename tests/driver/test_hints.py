"""Mistakes of people who know another library: the error says what to write. Device.zeros() and Device.full()."""

from __future__ import annotations

import array
import inspect
import re
import time
from typing import Any

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

CODE = """.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .f32 W[4];
.visible .func (.param .b32 r) helper(.param .b32 x) { .reg .b32 %r; ld.param.b32 %r, [x]; st.param.b32 [r], %r; ret; }
.extern .shared .align 4 .b8 tmp[];
.visible .entry dynamic(.param .u64 out) { .reg .b32 %r<3>; mov.u32 %r1, tmp; st.shared.u32 [%r1], 1; ret; }
"""


# -- zeros and full


@pytest.mark.parametrize("dtype, word", [("float32", 0.0), ("int64", 0), ("bool", False), ("complex64", 0j)])
@pytest.mark.parametrize("shape", [5, (2, 3), (), (0, 4)])
def test_zeros(device: Any, dtype: str, word: Any, shape: Any) -> None:
    made = device.zeros(shape, dtype)
    assert (made.shape, str(made.dtype)) == (shape if type(shape) is tuple else (shape,), dtype)
    assert made.is_c_contiguous and all(each == word for each in made.reshape(made.size).tolist())


def test_full_and_the_stream(device: Any) -> None:
    with device.stream() as stream:
        made, none = device.full((2, 2), 7, "int16", stream=stream), device.zeros(3, "float64", stream=stream)
        stream.synchronize()
    assert made.tolist() == [[7, 7], [7, 7]] and none.tolist() == [0.0] * 3
    assert device.full(2, b"\1\2", "uint16").tolist() == [0x0201] * 2
    with pytest.raises(ValueError, match="300"):
        device.full(2, 300, "int8")
    with pytest.raises(TypeError):
        device.zeros(2, "no such type")


# -- launches


@pytest.mark.parametrize(
    "given, options, words",
    [
        ((), {}, r"add\.launch\(\) needs grid= and block=: add\.launch\(\.\.\., grid=blocks, block=threads\)"),
        ((None, None, None, 0), {"grid": 1}, r"needs block=: add\.launch\(\.\.\., "),
        (((4,), (256,), None, None, None, 0), {}, "grid and the block are not the first arguments, .* by name: add"),
        ((4, 256, None, None, None, 0), {}, "are not the first arguments"),
        ((None, None, None, 0, (4,), (256,)), {}, "are not the last arguments"),
        ((None, None, None, 0, 4, 256), {}, "are not the last arguments"),
        (((4,), (256,), (None, None, None, 0)), {}, "first arguments, .* and the arguments of the kernel one by one"),
        ((None, None, None, 0), {"grid": 1, "block": 1, "smem": 4}, "no option 'smem': write shared_bytes=..."),
        ((None, None, None, 0), {"blocks": 1, "threads": 1}, "no option 'blocks': write grid=... for the blocks"),
        ((None, None, None, 0), {"grid": 1, "block": 1, "steam": 1}, "no option 'steam': did you mean stream"),
        ((None, None, None), {"grid": 1, "block": 1}, r"^add\(\) takes 4 arguments \(a .* but 3 were given$"),
        (([None, None, None, 0],), {"grid": 1, "block": 1}, "but 1 was given: give the arguments one by one"),
        ((None, None, None, 0), {"grid": 1, "threads_per_block": 1}, "'threads_per_block': write block=..."),
        ((), {"grid": 1, "block": 1, "args": ()}, "'args': the arguments of the kernel are given by position"),
        ((None, None, None), {"grid": 1, "block": 1, "n": 0}, "no option 'n'; .*arguments of the kernel are given by"),
    ],
)
def test_a_launch_without_its_shape_says_how(device: Any, given: Any, options: Any, words: str) -> None:
    with device.load(kernels.ADD) as loaded, pytest.raises(TypeError, match=words):
        loaded["add"].launch(*given, **options)


@pytest.mark.parametrize(
    "given, words",
    [
        ((), "but 0 were given$"),
        ((None, None, None), "but 3 were given$"),
        ((None, None, None, 0, 0, 0), "but 6 were given$"),
        (([None, None, None, 0],), "but 1 was given: give the arguments one by one"),
        (("x", 2**70), "but 2 were given$"),  # although it is of no use either
    ],
)
def test_a_bound_launch_with_another_number_of_arguments_says_the_signature(
    device: Any, given: Any, words: str
) -> None:
    with device.load(kernels.ADD) as loaded:
        launch = loaded["add"].configure(grid=1, block=1)
        for call in (launch, launch.func):
            with pytest.raises(
                TypeError, match=rf"^add\(\) takes 4 arguments \(a \.u64, .*, n \.u32\) {words}"
            ) as raised:
                call(*given)
            assert raised.value.__suppress_context__ or raised.value.__context__ is None
        with pytest.raises(TypeError, match="'a' is .*'x' cannot be converted"):
            launch("x", None, None, 0)
        launch(None, None, None, 0)
        device.synchronize()


def test_a_signature_shows_no_defaults(device: Any) -> None:
    with device.load(kernels.ADD) as loaded:
        launch = loaded["add"].configure(grid=1, block=1)
        assert "=" not in str(inspect.signature(launch)) and "(missing)" in str(inspect.signature(launch.func))


def test_a_configuration_takes_no_arguments(device: Any) -> None:
    with device.load(kernels.ADD) as loaded:
        with pytest.raises(TypeError, match=r"^add\.configure\(\) needs grid= and block=: "):
            loaded["add"].configure(4, 256)
        with pytest.raises(TypeError, match=r"^add\.configure\(\) takes no arguments: "):
            loaded["add"].configure(None, grid=4, block=256)


def test_what_is_no_kernel_says_what_it_is(device: Any) -> None:
    with device.load(CODE) as loaded:
        with pytest.raises(
            rawcuda.NotFound, match=r"^no kernel 'W' in this module: it is a variable: module\.global_\("
        ):
            loaded["W"]
        assert loaded.global_("W").shape == (4,)
        with pytest.raises(rawcuda.NotFound, match="'helper' in this module: it is a function of the device: only"):
            loaded["helper"]
        with pytest.raises(rawcuda.NotFound, match="no kernel 'help' in this module: it has dynamic$"):
            loaded["help"]


@pytest.mark.emulator_only("a driver takes its own time to load the text")
def test_a_name_that_is_not_there_takes_time_in_proportion_to_the_text(device: Any) -> None:
    for word in (".func ", "__device__ "):
        for _ in range(4):  # other processes disturb the time
            took = []
            for count in (500, 2000):
                with device.load(f"{CODE}// {word * count}\n") as loaded:
                    begun = time.thread_time()
                    with pytest.raises(rawcuda.NotFound):
                        loaded["absent"]
                    took.append(time.thread_time() - begun)
            if took[1] <= max(0.02, 9 * took[0]):
                break
        else:
            raise AssertionError((word, took))


def test_a_function_of_cuda_c_is_no_kernel() -> None:
    text = "#define DEVICE static __device__ inline\n// __device__ void none()\nDEVICE float helper(float x) { x; }\n"
    text += "__device__ int y; __global__ void k(int n) { helper(n); other(n); }\n__host__ void other(int) {}\n"
    read = module("compiler.declarations").Declarations([text])
    assert read.names == ["k"]
    assert [name for name in ("none", "helper", "x", "y", "k", "other") if read.has_device_function(name)] == ["helper"]


def test_a_compilation_for_a_device_refuses_the_keywords_of_others(device: Any) -> None:
    with pytest.raises(TypeError, match=r"^compile\(\) has no option 'extra_options': write options="):
        device.compile("", extra_options=["-O3"])


@pytest.mark.parametrize(
    "make, words",
    [
        (
            lambda d: d.empty(4, "float32", order="F"),
            r"^empty\(\) has no option 'order': .*empty\(shape\[::-1\], dtype\)\.T",
        ),
        (
            lambda d: d.zeros(4, "float32", kind="managed"),
            r"^zeros\(\) has no option 'kind': x = device\.allocate\(nbytes, ",
        ),
        (lambda d: d.full(4, 1, "float32", pinned=True), r"^full\(\) has no option .pinned.: x = device"),
        (lambda d: d.upload(b"1234", dtype="float32"), r"^upload\(\) has no option 'dtype': convert it first"),
        (
            lambda d: d.allocate(4, dtype="float32"),
            r"^allocate\(\) has no option 'dtype': device\.empty\(shape, dtype\)",
        ),
        (lambda d: d.empty(4, "float32", steam=None), r"^empty\(\) has no option 'steam'$"),
    ],
)
def test_new_arrays_and_memory_refuse_the_keywords_of_others(device: Any, make: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        make(device)


def test_what_a_hint_about_new_arrays_says_works(device: Any) -> None:
    transposed = device.empty((2, 3)[::-1], "float32").T
    assert transposed.shape == (2, 3) and transposed.flags.f_contiguous
    managed = device.allocate(24, kind="managed").view("float32").reshape((2, 3))
    managed.fill(2)
    assert managed.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_a_number_and_a_text_in_the_place_of_an_array(device: Any) -> None:
    with device.load(kernels.ADD) as loaded:
        add = loaded.kernel("add", ["pointer", "pointer", "pointer", "int32"])
        with pytest.raises(
            TypeError, match="2.0 is neither an array nor an address: look at the order of the arguments"
        ):
            add.launch(2.0, None, None, 0, grid=1, block=1)
        with pytest.raises(TypeError, match="'x' is neither an array nor an address: give an array that the device"):
            add.launch("x", None, None, 0, grid=1, block=1)
    x = device.zeros(2, "float32")
    with pytest.raises(
        TypeError, match=r"^int is not an exporter: .*: a number has no memory; view\[\.\.\.\] = number"
    ):
        device.upload(3)
    with pytest.raises(TypeError, match=r"^str is not an exporter: .*: give bytes"):
        x.copy_from("ab")


def test_a_report_names_the_public_type(device: Any) -> None:
    with device.allocate(8) as memory, device.stream() as stream:
        made = (device, "Device"), (memory, "Memory"), (device.zeros(2, "int8"), "StridedView"), (stream, "Stream")
        for one, name in made:
            assert rawcuda.explain(one).title == f"{rawcuda.__name__}.{name}"
            assert type(one).__name__ == name
    assert repr(device.attribute) == "<bound method Device.attribute of <Device 0>>"


@pytest.mark.parametrize(
    "name, maker",
    [
        ("Stream", "device.stream()"),
        ("Event", "device.event()"),
        ("Graph", "`with device.stream().capture() as graph:`, or device.graph(),"),
        ("MemoryPool", "device.memory_pool()"),
        ("VirtualMemory", "device.virtual_memory(nbytes)"),
        ("Module", "device.load(code), or device.compile(source),"),
    ],
)
def test_a_class_without_a_device_says_what_makes_one(name: str, maker: str) -> None:
    kind = getattr(rawcuda, name)
    for given in ((), (None,)):
        with pytest.raises(TypeError) as raised:
            kind(*given)
        assert str(raised.value) == f"{name} needs a Device: {maker} makes one"
    if name != "Graph":  # which may be given a stream
        with pytest.raises(TypeError, match=f"^{name} needs a Device, not a str: "):
            kind("x")


def test_a_module_without_code_says_what_code_is(device: Any) -> None:
    with pytest.raises(TypeError, match="^code must be PTX"):
        rawcuda.Module(device)


def test_the_bytes_of_memory_and_of_variables_are_not_set_by_an_index(device: Any) -> None:
    with pytest.raises(TypeError, match=r"^the bytes of a Memory are set by copy_from\(array\), or view\(dtype\)\["):
        device.allocate(16)[:] = b"1"


def test_memory_is_not_made_by_its_class() -> None:
    with pytest.raises(TypeError, match=r"^Memory is made by Device\.allocate\(\)"):
        rawcuda.Memory(64)


def test_the_hint_about_elapsed_time_gives_a_time_that_is_not_negative(device: Any) -> None:
    start, end = device.event(timing=True), device.event(timing=True)
    with device.stream() as stream:
        stream.record(start)
        stream.call(time.sleep, 0.01)
        stream.record(end)
        stream.synchronize()
    with pytest.raises(AttributeError) as raised:
        end.elapsed_time(start)
    hint = str(raised.value).partition(": ")[2].partition(";")[0]
    assert hint == "end.elapsed_ms(start)" and eval(hint, {"start": start, "end": end}) > 5


@pytest.mark.parametrize("mode", ["lazy", "eager", "random"])
def test_a_mode_is_no_setting(python: Any, mode: str) -> None:
    result = python(
        f"""
        from tests.subject import rawcuda
        try:
            rawcuda.use("emulator", {mode}=True)
        except TypeError as error:
            print(error)
        """,
        env={"RAWCUDA_DRIVER": None},
        check=True,
    )
    assert result.stdout == f"the emulator has no setting '{mode}': it is a mode, mode=\"{mode}\"\n"


@pytest.mark.emulator_only("a GPU does not write such reports")
def test_dynamic_shared_memory_that_a_launch_does_not_give(library: Any) -> None:
    own = rawcuda.devices()[-1]
    for given, words in ((0, "gave the kernel no dynamic"), (2, "gave the kernel 2 bytes of dynamic")):
        with pytest.raises(
            rawcuda.ContextLost, match=rf"{words} shared memory, for 'tmp': launch\(\.\.\., shared_bytes="
        ):
            own.load(CODE)["dynamic"].launch(None, grid=1, block=1, shared_bytes=given)
            own.synchronize()
        own.reset(force=True)


def test_more_memory_than_there_is_cannot_be_freed(device: Any, library: Any) -> None:
    with pytest.raises(rawcuda.OutOfMemory) as caught:
        device.allocate(1 << 46)
    if library is not None:
        assert "ree memory" not in str(caught.value) and "more than the" in str(caught.value)


def test_the_command_line_says_what_an_option_is_called(python: Any) -> None:
    from tests.subject import NAME

    result = python(["-m", NAME, "run", "x.ptx", "k", "--shared-bytes", "10", "--threads=5"])
    assert result.returncode == 2
    assert "--shared-bytes is called --shared here: --threads is called --block here; see " in result.stderr


# -- races


@pytest.mark.parametrize(
    "address, remedy", [("[%d]", "An atomic operation does that in one step"), ("[%d+4]", "a barrier is missing")]
)
def test_the_remedy_of_an_update_is_an_atomic(python: Any, address: str, remedy: str) -> None:
    """A barrier does not help if several threads read, change and write one address."""
    result = python(
        f"""
        from tests.subject import rawcuda
        rawcuda.use("emulator", checkers="racecheck")
        device = rawcuda.Device(0)
        data = device.zeros(65, "int32")
        device.load('''.version 7.0
        .target sm_70
        .address_size 64
        .entry k(.param .u64 a) {{ .reg .b64 %d<3>; .reg .b32 %r<3>; ld.param.u64 %d, [a];
        mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, {4 if "+" in address else 0}; add.u64 %d, %d, %d1;
        ld.global.u32 %r, {address};
        add.u32 %r, %r, 1;
        st.global.u32 [%d], %r;
        ret; }}''')["k"].launch(data, grid=1, block=64)
        try:
            device.synchronize()
        except rawcuda.ContextLost as error:
            print(error.checker, error)
        """.replace("%d<3>", "%d; .reg .b64 %d1").replace("%r<3>", "%r; .reg .b32 %r1"),
        env={"RAWCUDA_DRIVER": None},
        check=True,
    )
    assert result.stdout.startswith("racecheck racecheck: ") and remedy in result.stdout, result.stdout


IN_PLACE = """.version 7.0
.target sm_70
.address_size 64
.entry other(.param .u64 x) { ret; }
.entry k(.param .u64 out, .param .u64 x, .param .u32 n)
{
    .reg .b64 %o, %x, %a, %b, %c; .reg .b32 %r, %i; .reg .pred %p;
    ld.param.u64 %o, [out];
    ld.param.u64 %x, [x];
    cvta.to.global.u64 %o, %o;
    cvta.to.global.u64 %x, %x;
    mov.u32 %i, %tid.x;
    mul.wide.u32 %c, %i, 4;
    add.u64 %a, %x, %c;
    add.u64 %b, %o, %c;
    ld.global.u32 %r, [%READ+4];
    st.global.u32 [%b], %r;
    ret;
}
"""


@pytest.mark.parametrize("blocks", [1, 64])
@pytest.mark.parametrize(
    "read, given, words",
    [
        ("a", "data, data", ": out and x are the same memory: give another array for the output\n"),
        ("a", "data[2:], data", ": out and x are parts of the same memory: give another array for the output\n"),
        ("b", "data, data", "the memory of argument 0, counted from 0: out\n"),  # a race by one of them
        ("b", "data, device.zeros(66, 'int32')", "the memory of argument 0, counted from 0: out\n"),
    ],
)
def test_the_remedy_for_an_output_that_is_the_input_is_another_output(
    python: Any, read: str, given: str, words: str, blocks: int
) -> None:
    result = python(
        f"""
        import array
        from tests.driver.test_hints import IN_PLACE
        from tests.subject import rawcuda
        rawcuda.use("emulator", checkers="racecheck")
        device = rawcuda.Device(0)
        data = device.upload(array.array("i", range(66)))
        text = IN_PLACE.replace("%READ", "%{read}")
        if {blocks} > 1:
            text = text.replace("%tid.x", "%ctaid.x")
        device.load(text)["k"].launch({given}, 64, grid={blocks}, block=64 // {blocks})
        try:
            device.synchronize()
        except rawcuda.ContextLost as error:
            print(error.checker, error)
        """,
        env={"RAWCUDA_DRIVER": None},
        check=True,
    )
    assert result.stdout.startswith("racecheck racecheck: "), result.stdout
    assert words in result.stdout and result.stdout.count("is missing") + result.stdout.count("nothing orders") == (
        "memory of argument" in words
    ), result.stdout


@pytest.mark.tells_freed
@pytest.mark.parametrize("stream", ["None", "device.stream()"])
def test_a_report_of_freed_memory_says_where_it_was_freed(python: Any, stream: str) -> None:
    result = python(
        f"""
        from tests.driver.test_hints import IN_PLACE
        from tests.subject import rawcuda
        rawcuda.use("emulator")
        device = rawcuda.Device(0)
        stream, data = {stream}, device.zeros(64, "int32")
        memory = device.allocate(264, stream=stream)
        address = memory.ptr
        memory.close()  # the line 8
        others = [device.allocate(264, stream=stream) for _ in range(5)]
        device.load(IN_PLACE.replace("%READ", "%a"))["k"].launch(data, address, 0, grid=1, block=1, stream=stream)
        try:
            device.synchronize()
        except rawcuda.ContextLost as error:
            print(error)
        """,
        env={"RAWCUDA_DRIVER": None},
        check=True,
    )
    assert re.search(
        r": 4 bytes into a 264-byte device allocation, allocated at \S+:7, that was freed at \S+:9; this is the "
        r"memory of argument 1, counted from 0: x\. Keep the memory until the kernel has run: pass the array, and",
        result.stdout,
    ), result.stdout


def test_an_address_of_an_array_that_was_dropped_is_found_by_the_launch(python: Any) -> None:
    result = python(
        """
        from tests.driver.test_hints import IN_PLACE
        from tests.subject import rawcuda
        rawcuda.use("emulator")
        device = rawcuda.Device(0)
        kernel = device.load(IN_PLACE.replace("%READ", "%a"))["k"]
        data, other = device.zeros(64, "int32"), device.zeros(64, "int32")
        address = other.ptr
        del other
        try:
            kernel.launch(data, address, 0, grid=1, block=1)
            device.synchronize()
        except rawcuda.ContextLost as error:
            print(error)
        """,
        env={"RAWCUDA_DRIVER": None},
        check=True,
    )
    assert "that was freed" in result.stdout and "memory of argument 1" in result.stdout, result.stdout


def test_arithmetic_on_a_device_says_that_it_is_downloaded_first(device: Any) -> None:
    x = device.zeros(2, "float32")
    with pytest.raises(TypeError, match=r"computes nothing: compute with numpy\.asarray\(view\.download\(\)\)"):
        x + 1
    with pytest.raises(TypeError, match=r"computes nothing: compute with numpy\.asarray\(view\),"):
        x.download() + 1


def test_a_copy_of_another_dtype_names_both_and_the_conversion(device: Any) -> None:
    x, doubles = device.zeros(2, "float32"), array.array("d", [1, 2])
    for source in (doubles, device.upload(doubles)):
        for copy_it in (lambda given: x.__setitem__(slice(None), given), x.copy_from):
            with pytest.raises(
                TypeError, match=r"target has dtype float32, the source float64; .*astype\(\"float32\"\)"
            ):
                copy_it(source)


def test_names_of_other_libraries_for_what_a_device_makes(device: Any) -> None:
    with pytest.raises(AttributeError, match=r"with device\.stream\(\)\.capture\(\) as graph"):
        device.capture
    with pytest.raises(AttributeError, match=r"the function copy\(target, source\)"):
        device.memcpy
    with pytest.raises(AttributeError, match=r"Device\(0\)\.upload\(x\)"):
        rawcuda.upload


def test_too_much_static_shared_memory(device: Any) -> None:
    text = CODE + ".visible .entry k() { .shared .b8 s[65536]; st.shared.u32 [s], 1; ret; }"
    words = "uses too much shared data.*\n.*`extern __shared__ float s"
    with pytest.raises(rawcuda.CompileFailed, match=words) as caught:
        device.load(text)
    assert "extern __shared__" not in caught.value.log


def test_events_are_not_subtracted(device: Any) -> None:
    start, end = device.event(timing=True), device.event(timing=True)
    with pytest.raises(TypeError, match=r"^events are not subtracted: end\.elapsed_ms\(start\)"):
        end - start


def test_a_variable_of_a_module_is_not_set_by_its_name(device: Any) -> None:
    with device.load(CODE) as loaded, pytest.raises(TypeError, match=r"module\.global_\('W'\)\.copy_from\(array\)"):
        loaded["W"] = [1.0]


def test_a_grid_that_a_true_division_made(device: Any) -> None:
    with (
        device.load(kernels.ADD) as loaded,
        pytest.raises(TypeError, match=r"grid=2.5: give an int, such as -\(-n // threads\), which rounds"),
    ):
        loaded["add"].launch(None, None, None, 0, grid=10 / 4, block=1)


def test_an_unknown_attribute_of_a_device_is_given_the_names_that_it_takes(device: Any) -> None:
    for ask in (lambda: device.attributes.multiprocessors, lambda: device.attribute("multiprocessors")):
        with pytest.raises((AttributeError, ValueError), match="'multiprocessors': did you mean MULTIPROC") as raised:
            ask()
        assert "CU_" not in str(raised.value)
        name = str(raised.value).partition("did you mean ")[2].partition(",")[0]
        assert device.attribute(name) == getattr(device.attributes, name) > 0
