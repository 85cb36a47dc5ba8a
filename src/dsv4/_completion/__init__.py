"""The grammar of a completion, and the results of reading one: events, and a message."""
