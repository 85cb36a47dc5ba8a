"""Messages -> turns -> pieces -> Prompt."""
