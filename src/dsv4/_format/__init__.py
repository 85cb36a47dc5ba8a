"""What the format is: special tokens, dialects, texts, misspellings. Data only, no decisions."""
