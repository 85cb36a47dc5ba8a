"""Other people's names over our code."""

import os


def chat_template() -> str:
    """The chat template for `transformers`: the prompt of the dialect "v4", written in Jinja.

    It is the file `format/chat_template.jinja` of this package.
    """
    package = os.path.dirname(os.path.dirname(__file__))
    path = os.path.join(package, "format", "chat_template.jinja")
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()
