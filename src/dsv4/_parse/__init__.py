"""From the text of a completion, in pieces, to events and a message."""
