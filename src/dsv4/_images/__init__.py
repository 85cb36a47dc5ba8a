"""The images of a prompt: their sizes, from the bytes of their files, and their tokens."""
