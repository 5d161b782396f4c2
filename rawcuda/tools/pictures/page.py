"""Text and pictures as HTML, which Jupyter also shows in notebooks that are not trusted.

What it is   `shown`: text in a fixed-width font, and pictures as <img> with embedded data. Jupyter removes <svg> and
             style sheets from a notebook that is not trusted, but not these.
What not     scripts, style sheets, or anything that is loaded.
Read next    svg.py
"""

from __future__ import annotations

from base64 import b64encode
from html import escape
from re import search

from ... import errors

__all__ = ["shown", "text_block"]

_MONO = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:90%;line-height:1.35"


def text_block(text: str, *, tall: bool = False, wrapped: bool = False) -> str:
    """Return a text as HTML, with its control characters escaped.

    Long lines scroll in the block unless `wrapped`, and a long text unless `tall`.
    """
    if tall:
        limit = ""
    else:
        limit = "max-height:32em;"
    if wrapped:
        space = "pre-wrap"
    else:
        space = "pre"
    safe = escape(errors.shown(text))
    return f'<pre style="{_MONO};white-space:{space};overflow:auto;{limit}margin:0 0 .5em 0">{safe}</pre>'


def shown(text: str, picture: str | None, *, below: str = "") -> str:
    """Return HTML of a text, a picture (the text of an SVG file) and more HTML, each of which may be empty."""
    if text:
        made = text_block(text)
    else:
        made = ""
    if picture:
        title = search("<title>(.*?)</title>", picture)
        data = b64encode(picture.encode()).decode("ascii")
        made += (
            f'<div style="overflow:auto;max-width:100%"><img alt="{title[1] if title else ""}" '
            f'style="max-width:none" src="data:image/svg+xml;base64,{data}"></div>'
        )
    return made + below
