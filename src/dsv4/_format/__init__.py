"""The format as data: special tokens, dialects, texts, misspellings. No decisions are made here."""
