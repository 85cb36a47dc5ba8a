"""From the text of a completion, in pieces and well-formed or not, to events."""
