"""What is wrong with something that somebody pasted, who did it, and what fixes it."""
