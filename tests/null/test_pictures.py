"""Pictures are well-formed, safe, and agree with the layout or trace that they show; a browser renders them."""

from __future__ import annotations

import base64
import gc
import json
import random
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from itertools import product
from pathlib import Path

import pytest

from tests.shared import browser_command
from tests.subject import module, rawcuda

pictures, svg, tracing = module("tools.pictures"), module("tools.pictures.svg"), module("tracing")
Call, Step = tracing.Call, tracing.Step
SVG = "{http://www.w3.org/2000/svg}"

LAYOUTS = {
    "c": ((3, 4), (16, 4), 4),
    "fortran": ((3, 4), (4, 12), 4),
    "gaps": ((4, 5), (64, 8), 8),
    "negative": ((3, 3), (80, -16), 8),
    "all negative": ((2, 3), (-24, -8), 8),
    "broadcast": ((4, 3), (0, 8), 8),
    "one element, many indices": ((3, 3), (0, 0), 2),
    "sliding": ((5, 4), (4, 4), 4),
    "overlapping": ((6,), (4,), 8),
    "closely overlapping": ((6,), (1,), 8),
    "three": ((2, 3, 4), (48, 16, 4), 4),
    "four": ((2, 3, 4, 5), (4, 8, 24, 96), 4),
    "six": ((2, 2, 2, 2, 2, 2), (32, 16, 8, 4, 2, 1), 1),
    "large": ((1000, 1000), (4000, 4), 4),
    "far apart": ((2, 2), (10**15, 1), 1),
    "bytes": ((100,), (1,), 1),
    "structs": ((3,), (5000,), 4096),
    "odd": ((3,), (12,), 8),
    "ones": ((1, 1), (77, 5), 4),
    "scalar": ((), (), 8),
    "empty": ((0, 3), (12, 4), 4),
    "64 dimensions": ((1,) * 64, (8,) * 64, 8),
    "no size": ((2,), (0,), 0),
}


def parsed(text):
    """Parse a picture, and check that it has a title, no external references, and nothing outside of the card."""
    root = ElementTree.fromstring(text)
    assert root.tag == SVG + "svg" and root.find(SVG + "title").text and text.count("<svg") == 1
    assert "nan" not in text.lower().replace("lanes", "") and "inf" not in re.sub("[a-z]{4,}", "", text.lower())
    assert not re.search(r"(href|src|<script|<style|@import|url\((?!#))", text)
    for name in re.findall(r"url\(#([^)]+)\)", text):
        assert f'id="{name}"' in text
    width, height = map(float, root.get("viewBox").split()[2:])
    assert (
        100 < width < 4000
        and 50 < height < 6000
        and (root.get("width"), root.get("height")) == (f"{width:.0f}", f"{height:.0f}")
    )
    for rect in root.iter(SVG + "rect"):
        if rect.get("x"):
            assert float(rect.get("x")) >= 0 and float(rect.get("x")) + float(rect.get("width")) <= width - 35
            assert float(rect.get("y")) >= 0 and float(rect.get("y")) + float(rect.get("height")) <= height - 35
    return root


def cells(root):
    """Return {index: offset} of every tip in a picture, and the number of tips of each index."""
    told, count = {}, {}
    for title in root.iter(SVG + "title"):
        found = re.fullmatch(r"(-?\d+) bytes from the first element: (.*)", title.text or "")
        for index in re.findall(r"\[([\d,·]+)\]", found[2] if found else ""):
            key = tuple(int(n) for n in index.split(",")) if index != "·" else ()
            assert told.setdefault(key, int(found[1])) == int(found[1])
            count[key] = count.get(key, 0) + 1
    return told, count


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_drawn_as_it_is(name):
    shape, strides, itemsize = LAYOUTS[name]
    text = pictures.layout_picture(shape, strides, itemsize, "sometype", address=0x1234, note="a note")
    root = parsed(text)
    assert len(text) < 150_000
    told, count = cells(root)
    assert all(offset == sum(i * step for i, step in zip(index, strides)) for index, offset in told.items())
    words = "\n".join(text.text for text in root.iter(SVG + "text"))
    assert f"shape {shape}" in words and "a note" in words
    if 0 in shape:
        assert not told and "no elements" in words
        return
    corner = tuple(max(i[axis] for i in told) + 1 for axis in range(len(shape)))
    assert set(told) == set(product(*map(range, corner)))  # a whole corner, and everything in it
    assert min(count.values()) >= 2  # by index, and by address
    assert corner == shape or f"the first {' × '.join(map(str, corner))} of {' × '.join(map(str, shape))}" in words
    assert "0x1234" in words
    for index in told:
        assert (",".join(map(str, index)) or "·") in words


def test_random_layouts_are_drawn():
    chance = random.Random(5)
    for _ in range(150):
        ndim, itemsize = chance.randrange(5), chance.choice([1, 2, 4, 8, 12, 16])
        shape = tuple(chance.choice([0, 1, 1, 2, 3, 7, 40]) for _ in range(ndim))
        strides = tuple(chance.choice([0, itemsize, -itemsize, 1, 24, -96, 1000, 12345]) for _ in range(ndim))
        told, _ = cells(parsed(pictures.layout_picture(shape, strides, itemsize)))
        assert all(offset == sum(i * step for i, step in zip(index, strides)) for index, offset in told.items())


@pytest.mark.parametrize(
    "name, words",
    [
        ("c", "C order"),
        ("fortran", "Fortran order"),
        ("gaps", "160 bytes of elements in a range of 232: 72 are gaps"),
        ("negative", "not at the lowest address"),
        ("broadcast", "one element in memory has many indices"),
        ("sliding", "elements overlap"),
        ("odd", "which DLPack cannot express"),
        ("ones", "one element"),
        ("bytes", "one axis, a step of 1 bytes"),
        ("structs", "12288 bytes of elements in a range of 14096: 1808 are gaps"),
        ("one element, many indices", "no axis moves"),
        ("three", "C order"),
        ("all negative", "neither C nor Fortran"),
    ],
)
def test_a_layout_in_words(name, words):
    said = "; ".join(module("tools.pictures").worded_layout(*LAYOUTS[name]))
    assert words in said
    assert ("are gaps" in said) == (name in ("gaps", "negative", "odd", "structs"))


@pytest.mark.parametrize(
    "name, used",
    [("c", ""), ("gaps", "gap"), ("broadcast", "shared"), ("sliding", "shared"), ("negative", "gap"), ("large", "")],
)
def test_what_colour_says_a_pattern_says_too(name, used):
    text = pictures.layout_picture(*LAYOUTS[name])
    assert set(re.findall(r'fill="url\(#p[0-9a-f]+-(\w+)\)"', text)) == ({used} if used else set())
    assert ("Hatched: bytes of no element" in text, "Crossed: one element" in text) == (used == "gap", used == "shared")
    assert ("that are not drawn" in text) == (name == "large")  # elements that are not drawn are not gaps


def test_shades_show_the_order_in_grey_too():
    def luminance(colour):
        red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2

    grey = [luminance(svg.shade(part / 20)) for part in range(21)]
    assert grey == sorted(grey, reverse=True) and grey[0] - grey[-1] > 0.4
    assert all((one + 0.05) / (luminance(svg.INK) + 0.05) > 4.5 for one in grey)  # WCAG: readable


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a & b \"quoted\" 'too'",
        "nul \0 bell \7 escape \x1b[31m",
        "turned \u202e round",
        "lone \ud800 surrogate",
        "]]> <!-- -->",
        "\ufffe \uffff",
        "emoji \U0001f600",
    ],
)
def test_text_is_escaped(text):
    root = parsed(pictures.layout_picture((2,), (4,), 4, text, note=text))
    assert [each for each in root.iter() if each.tag.endswith("script")] == []
    plain = re.sub("[^\\x20-\\x7e\U0001f600]", "?", text)
    assert plain in [each.text for each in root.iter(SVG + "text")]
    call = Call("cuLaunchKernelEx", {"f": f"<Kernel {text}>", "hStream": "CUstream(0x5)"}, "CUDA_SUCCESS", 1)
    parsed(pictures.trace_picture([call, Step("dlpack", text, text, 7)]))


def test_pictures_on_one_page_do_not_share_names():
    one, other = pictures.layout_picture((2,), (8,), 4), pictures.layout_picture((3,), (8,), 4)
    ids = [set(re.findall(r'id="([^"]+)"', text)) for text in (one, other)]
    assert ids[0] and not ids[0] & ids[1] and one == pictures.layout_picture((2,), (8,), 4)


# -- in a notebook


def test_a_view_shows_itself():
    view = rawcuda.view(bytearray(48)).reinterpret("float32").reshape(3, 4)[:, ::2]
    root = parsed(view._repr_svg_())
    assert "float32  shape (3, 2)  strides (16, 8) bytes" in [each.text for each in root.iter(SVG + "text")]
    html = view._repr_html_()
    assert html.startswith('<pre style="font-family:ui-monospace') and ">&lt;StridedView float32 (3, 2)" in html
    assert embedded(html) == view._repr_svg_() and 'alt="memory layout: float32' in html
    assert "<svg" not in html and "<script" not in html and html.count("overflow:auto") == 2


def embedded(html):
    """Return the picture that is embedded in the HTML, as a notebook's sanitizer leaves it."""
    [data] = re.findall(r'src="data:image/svg\+xml;base64,([\w+/=]+)"', html)
    return base64.b64decode(data).decode()


def test_a_copy_without_pictures_shows_text(python):
    result = python("""
        import sys
        from tests.subject import NAME, rawcuda
        sys.modules[NAME + ".tools.pictures"] = None           # as if the folder had been left out
        view = rawcuda.view(b"abc")
        assert view._repr_svg_() is None and view._repr_html_() is None
        with rawcuda.trace([]) as trace:
            view.__array_interface__
        assert trace._repr_svg_() is None and "1 events" in trace._repr_html_()
    """)
    assert result.returncode == 0, result.stderr


# -- traces


def texts(root):
    return [each.text for each in root.iter(SVG + "text")]


def test_the_life_of_a_capsule_that_we_consume():
    view = rawcuda.view(bytearray(16))
    with rawcuda.trace([]) as trace:
        capsule = view.__dlpack__(max_version=(1, 0))
        taken = rawcuda.view(capsule)
        del capsule, taken
        gc.collect()
    said = texts(parsed(trace._repr_svg_()))
    assert [text for text in said if text in ("1", "2", "3", "4")] == [
        "1",
        "1",
        "2",
        "2",
        "3",
        "3",
    ]  # a dot and a line of words each
    whole = " ".join(said)
    assert [
        whole.count(sentence)
        for sentence in (
            'a new capsule, "dltensor_versioned", leads to a new struct, which keeps the memory alive',
            'we take the tensor: the capsule is renamed "used_dltensor_versioned", '
            "so that its destructor does not free the tensor",
            "the consumer calls the struct's deleter, once: the producer owns the struct and the memory again",
        )
    ] == [1, 1, 1]
    assert 'fill="url(#p' in trace._repr_svg_() and "1 capsule" not in said
    assert "events</summary><pre style=" in trace._repr_html_() and "<svg" not in trace._repr_html_()


def test_the_life_of_a_capsule_that_another_consumes():
    numpy = pytest.importorskip("numpy")
    view = rawcuda.view(bytearray(16))
    with rawcuda.trace([]) as trace:
        array = numpy.from_dlpack(view)
        del array
        gc.collect()
    steps = [step.what.partition("(")[0] for step in trace.events]
    assert steps == ["export", "capsule dropped", "deleter"] and len({step.tensor for step in trace.events}) == 1
    said = " ".join(texts(parsed(trace._repr_svg_())))
    assert (
        'the capsule is deleted; its name is "used_dltensor' in said
        and "the consumer calls the struct's deleter" in said
    )


def test_lives_that_end_otherwise():
    view = rawcuda.view(bytearray(16))
    with rawcuda.trace([]) as trace:
        view.__dlpack__()  # dropped at once
        gc.collect()
        kept = view.__dlpack__()
    said = " ".join(texts(parsed(trace._repr_svg_())))
    assert (
        "the capsule is deleted unused: its destructor calls the deleter" in said
        and "… still alive at the end of the trace" in said
    )
    assert said.count(" producer ") == 2 and kept


def test_an_address_may_serve_again():
    steps = [
        Step("dlpack", what, "dltensor, x", 0x5000)
        for what in ("export", "capsule freed", "export", "consume", "deleter(0x5000)", "deleter(0x5000)")
    ]
    said = texts(parsed(pictures.trace_picture(steps)))
    assert said.count("producer") == 2 and sum(text.startswith("the consumer calls") for text in said) == 1
    steps = [Step("dlpack", "ndarray.__dlpack__()", "-> dltensor, x", 0x5000) for _ in range(3)]
    assert texts(parsed(pictures.trace_picture(steps))).count("producer") == 3


def call(name, **arguments):
    return Call(name, arguments, "CUDA_SUCCESS", 1000)


def test_streams_are_lanes():
    a, b = "CUstream(0x5a00)", "CUstream(0x5b00)"
    events = [
        call("cuLaunchKernelEx", f="<Kernel first>", hStream=a),
        call("cuEventRecord", hEvent="CUevent(0x7)", hStream=a),
        call("cuStreamWaitEvent", hStream=b, hEvent="CUevent(0x7)"),
        call("cuLaunchKernelEx", f="<Kernel second>", hStream=b),
        call("cuStreamSynchronize", hStream=b),
        call("cuEventSynchronize", hEvent="CUevent(0x7)"),
        call("cuCtxSynchronize"),
        call("cuStreamWaitEvent", hStream=b, hEvent="CUevent(0xbad)"),
    ]
    root = parsed(pictures.trace_picture(events))
    said = texts(root)
    assert {"this program", "stream 0x5a00", "stream 0x5b00", "first", "second", "waits", "waits for all", "–"} <= set(
        said
    )
    assert said.count("1") == 2  # the record, and the wait for it
    arrows = [path for path in root.iter(SVG + "path") if path.get("marker-end")]
    assert len(arrows) == 3  # record to wait, stream to host, event to host; none for an unrecorded event
    height = {text.text: float(text.get("y")) for text in root.iter(SVG + "text")}
    assert (
        height["first"] == height["stream 0x5a00"]
        and height["second"] == height["stream 0x5b00"]
        and height["waits"] == height["this program"]
    )
    place = {text.text: float(text.get("x")) for text in root.iter(SVG + "text")}
    assert place["first"] < place["second"] < place["waits for all"]


def test_a_long_trace_is_cut():
    said = texts(
        parsed(
            pictures.trace_picture(
                [call("cuMemsetD8Async", N="1", hStream="CUstream(0x1)")] * 500
                + [Step("dlpack", "export", "dltensor, x", number) for number in range(1, 100)]
            )
        )
    )
    assert "and 460 more calls, not drawn" in said and "and 91 more, not drawn" in said
    life = [Step("dlpack", "consume", "dltensor, x", 0x5000)] * 1000
    said = texts(parsed(pictures.trace_picture(life)))
    assert "and 988 more steps, not drawn" in said and "13" not in said and "still alive" not in " ".join(said)


def test_an_empty_trace_says_so():
    assert texts(parsed(pictures.trace_picture([])))[0] == (
        "Nothing to draw: the trace kept no events; a list given to it keeps them."
    )
    assert texts(parsed(pictures.trace_picture([Step("buffer", "memoryview"), Call("cuInit", {}, "CUDA_SUCCESS", 1)])))[
        0
    ].startswith("Nothing to draw: the trace recorded no stream")


# -- a browser

LOOK = """<script>
addEventListener("load", () => {
  const wrong = [];
  for (const svg of document.querySelectorAll("svg")) {
    const card = svg.getBoundingClientRect(), name = svg.parentNode.id;
    const edge = 6 * card.width / svg.viewBox.baseVal.width;
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      if (!box.width || box.left < card.left + edge || box.right > card.right - edge
          || box.top < card.top + edge || box.bottom > card.bottom - edge)
        wrong.push([name, text.textContent, "leaves the card", box.left - card.left, card.right - box.right]);
    }
    if (svg.viewBox.baseVal.width < 10 || getComputedStyle(svg).display === "none") wrong.push([name, "not shown"]);
  }
  for (const image of document.images) if (!image.naturalWidth) wrong.push([image.parentNode.id, "no image"]);
  document.title = "looked " + JSON.stringify(wrong);
});</script>"""


def browser(tmp_path, page, *options):
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    command = browser_command(tmp_path / "profile", *options, (tmp_path / "page.html").as_uri())
    return subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True)


@pytest.mark.heavy
@pytest.mark.skipif(browser_command(Path()) is None, reason="Chromium is not installed (Debian: apt install chromium)")
@pytest.mark.parametrize("background", ["#ffffff", "#111111"])
def test_a_browser_shows_every_picture_whole(tmp_path, background):
    view = rawcuda.view(bytearray(16))
    with rawcuda.trace([]) as trace:
        capsule = view.__dlpack__(max_version=(1, 0))
        kept = [rawcuda.view(capsule), view.__dlpack__()]
        view.__dlpack__()
        a, b = "CUstream(0x5a00)", "CUstream(0x5b00)"
        for each in (
            call("cuLaunchKernelEx", f="<Kernel a_kernel_of_a_long_name>", hStream=a),
            call("cuEventRecord", hEvent="CUevent(0x7)", hStream=a),
            call("cuStreamWaitEvent", hStream=b, hEvent="CUevent(0x7)"),
            call("cuStreamSynchronize", hStream=b),
            call("cuCtxSynchronize"),
        ):
            tracing.emit(each)
    drawn = {
        name: pictures.layout_picture(*LAYOUTS[name], "float32", address=2**47 - 8, note="numpy.ndarray")
        for name in LAYOUTS
    }
    drawn["trace"] = trace._repr_svg_()
    parts = "".join(
        f'<div id="{name}">{text}<img src="data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}"></div>'
        for name, text in drawn.items()
    )
    body = f'<body style="background:{background};color:#0f0;font:40px serif">'
    page = f'<!doctype html><meta charset="utf-8">{body}{parts}{LOOK}'
    dom = browser(tmp_path, page, "--dump-dom", "--virtual-time-budget=20000").stdout.decode()
    found = re.search("<title>looked (.*?)</title>", dom)
    assert found and json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")) == []
    browser(tmp_path, page, f"--screenshot={tmp_path / 'shot.png'}", "--window-size=1000,4000", "--hide-scrollbars")
    shot = (tmp_path / "shot.png").read_bytes()
    assert shot.startswith(b"\x89PNG") and len(shot) > 50_000 and kept  # an empty page of this size has about 10,000
