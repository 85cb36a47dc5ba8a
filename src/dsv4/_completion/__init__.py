"""What a completion is read into: events, the message that they make, and why the text ended."""
