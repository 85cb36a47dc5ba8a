"""Draws the two characters of special tokens that many fonts lack, as a font of 1 KB for the page.

    python scripts/draw_token_bars.py        with fonttools 4

Both are rectangles, drawn here, so that the font has this project's own licence: ｜ (fullwidth
vertical line) and ▁ (lower one eighth block).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FONT = ROOT / "src" / "dsv4" / "_playground" / "page" / "tokenbars.woff"
UNITS = 1000
# By character: the width, and the corners of its rectangle (left, bottom, right, top).
CHARACTERS = {
    0xFF5C: (1000, (460, -120, 540, 880)),
    0x2581: (600, (0, -200, 600, -75)),
}


def draw() -> None:
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    names = {code: f"uni{code:04X}" for code in CHARACTERS}
    builder = FontBuilder(UNITS, isTTF=True)
    builder.setupGlyphOrder([".notdef", *names.values()])
    builder.setupCharacterMap(names)
    glyphs = {".notdef": TTGlyphPen(None).glyph()}
    for code, (_, (left, bottom, right, top)) in CHARACTERS.items():
        pen = TTGlyphPen(None)
        pen.moveTo((left, bottom))
        for corner in ((left, top), (right, top), (right, bottom)):
            pen.lineTo(corner)
        pen.closePath()
        glyphs[names[code]] = pen.glyph()
    builder.setupGlyf(glyphs)
    widths = {names[code]: (width, box[0]) for code, (width, box) in CHARACTERS.items()}
    builder.setupHorizontalMetrics({".notdef": (500, 0), **widths})
    builder.setupHorizontalHeader(ascent=880, descent=-120)
    builder.setupNameTable({"familyName": "Token Bars", "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=880, sTypoDescender=-120, usWinAscent=880, usWinDescent=200)
    builder.setupPost()
    builder.updateHead(created=0, modified=0)
    font = builder.font
    font.recalcTimestamp = False
    font.flavor = "woff"
    font.save(FONT)


if __name__ == "__main__":
    draw()
    sys.exit(0)
