"""A prompt as people look at it: rows first, then text for a terminal, a page or a picture.

prompt -> rows -> text, html, svg
"""
