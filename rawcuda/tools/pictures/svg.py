"""A sheet of SVG with its own light background, so that it is readable on any page.

What not     no style sheet is used or made, and nothing is loaded.

Read next    traces.py
"""

from __future__ import annotations

import re
from zlib import crc32

__all__ = ["CARD", "EDGE", "INK", "QUIET", "Sheet", "shade"]

INK, QUIET, EDGE, CARD = "#1f2430", "#5b6475", "#8d95a5", "#fcfcfa"
_MONO, _SANS = "ui-monospace,'DejaVu Sans Mono',Consolas,monospace", "system-ui,'DejaVu Sans',sans-serif"
_UNFIT = re.compile(
    "[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]"
)  # not allowed in XML, or changing the direction of text
_OWN = "\0"  # the prefix of the names of patterns; it occurs in no text
_PATTERNS = {
    "gap": '<path d="M-2,2 l4,-4 M0,8 l8,-8 M6,10 l4,-4" stroke="#b3b9c4"/>',
    "shared": '<path d="M0,0 l8,8 M0,8 l8,-8" stroke="#b03a2e" stroke-width="0.8"/>',
    "taken": '<path d="M2,1 v2 M6,5 v2" stroke="#5b6475" stroke-width="2"/>',
}
# Light to dark, so that the order is visible in grey; black text is readable on the darkest, too.
_RAMP = (255, 250, 205), (208, 238, 190), (150, 219, 190), (105, 190, 200), (112, 160, 214), (150, 140, 210)


def shade(part: float) -> str:
    """Return the colour for a position in an order; 0 is the first, 1 the last."""
    place = part * (len(_RAMP) - 1)
    below = min(int(place), len(_RAMP) - 2)
    return "#{:02x}{:02x}{:02x}".format(
        *tuple([round(a + (b - a) * (place - below)) for a, b in zip(_RAMP[below], _RAMP[below + 1])])
    )


def _escaped(text: object) -> str:
    plain = _UNFIT.sub("?", str(text))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


class Sheet:
    """A sheet that grows with the shapes on it; the name of a pattern may be given as a fill colour.

    units     pixels, from the left and from the top
    """

    def __init__(self, title: str) -> None:
        self.title, self.width, self.height = title, 0.0, 0.0
        self._parts: list[str] = []

    def _add(self, shape: str, right: float, bottom: float) -> None:
        self._parts.append(shape)
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "none",
        *,
        line: str = INK,
        thick: float = 1,
        dash: str = "",
        tip: str = "",
    ) -> None:
        """Draw a rectangle; `tip` is shown under the mouse pointer."""
        if fill in _PATTERNS:
            paint = f"url(#{_OWN}{fill})"
        else:
            paint = fill
        self._add(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{paint}" stroke="{line}" '
            f'stroke-width="{thick}" stroke-dasharray="{dash or "none"}"><title>{_escaped(tip)}</title></rect>',
            x + width,
            y + height,
        )

    def text(
        self,
        x: float,
        y: float,
        text: object,
        *,
        size: float = 11,
        anchor: str = "start",
        colour: str = INK,
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        """Write a line of text; x is its start, middle or end, and y its baseline."""
        long = len(str(text)) * size * (0.61 if mono else 0.54) * {"start": 1, "middle": 0.5, "end": 0}[anchor]
        self._add(
            f'<text x="{x:.1f}" y="{y:.1f}" font-family="{_MONO if mono else _SANS}" font-size="{size}" '
            f'fill="{colour}" text-anchor="{anchor}" font-weight="{600 if bold else 400}">{_escaped(text)}</text>',
            x + long,
            y + 4,
        )

    def path(self, d: str, *, line: str = INK, dash: str = "", arrow: bool = False) -> None:
        """Draw a path in SVG's notation, optionally with an arrowhead; the sheet does not grow with it."""
        if arrow:
            head = f' marker-end="url(#{_OWN}head)"'
        else:
            head = ""
        self._add(
            f'<path d="{d}" fill="none" stroke="{line}" stroke-width="1.3" stroke-dasharray="{dash or "none"}"{head}/>',
            0,
            0,
        )

    def dot(self, x: float, y: float, label: object, *, hollow: bool = False) -> None:
        """Draw a dot with a short label in it."""
        self._add(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8.5" fill="{CARD if hollow else INK}" stroke="{INK}" '
            'stroke-width="1.5"/>',
            x + 9,
            y + 9,
        )
        self.text(x, y + 3.8, label, anchor="middle", colour=INK if hollow else CARD, bold=True)

    def middle(self, x: float, y: float, text: str) -> None:
        """Write text, centred."""
        self.text(x, y, text, size=10, anchor="middle")

    def plate(self, x: float, y: float, text: str) -> None:
        """Write text, centred, on a plate that hides the background."""
        self.rect(x - len(text) * 3 - 3, y - 11, len(text) * 6 + 6, 15, CARD, line="none")
        self.middle(x, y, text)

    def render(self) -> str:
        """Return the picture as the text of an SVG file, which can also be part of an HTML page."""
        size = f'width="{self.width + 36:.0f}" height="{self.height + 36:.0f}"'
        patterns = "".join(
            f'<pattern id="{_OWN}{name}" width="8" height="8" patternUnits="userSpaceOnUse">{marks}</pattern>'
            for name, marks in _PATTERNS.items()
        )
        text = (
            '<svg xmlns="http://www.w3.org/2000/svg" '
            f'viewBox="0 0 {self.width + 36:.0f} {self.height + 36:.0f}" {size} role="img" '
            f'style="max-width:100%;height:auto"><title>{_escaped(self.title)}</title><defs>{patterns}'
            f'<marker id="{_OWN}head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>'
            f'<rect {size} rx="8" fill="{CARD}" stroke="{EDGE}"/><g transform="translate(18,18)">\n'
            + "\n".join(self._parts)
            + "\n</g></svg>\n"
        )
        # Several pictures may be on one page, where a name refers to the first object that has it.
        return text.replace(_OWN, f"p{crc32(text.encode()):x}-")
