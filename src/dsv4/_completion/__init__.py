"""What a completion is, by its grammar, and what it is read into: events, and a message."""
