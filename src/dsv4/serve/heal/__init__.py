"""In front of a chat server whose answers leak markup: requests are adapted, answers put right."""
