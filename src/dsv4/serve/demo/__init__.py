"""A model that is no model: it reads prompts as the real one would, and answers by a few rules.

With it the server does something in its first second, without a GPU, and clients can be tested
against answers that are known beforehand. docs/serving.md lists the rules.
"""
