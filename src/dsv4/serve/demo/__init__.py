"""A stand-in for a model: it reads prompts as the real one would, and answers by a few rules.

With it the gateway works immediately, without a GPU, and clients can be tested against answers
that are known beforehand. docs/serving.md lists the rules.
"""
