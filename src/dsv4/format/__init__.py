"""WHAT the format is: tokens, dialects and prompt fragments. Data, and nothing that decides."""
