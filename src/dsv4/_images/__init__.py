"""What an image is in a prompt: its size, from the bytes of its file, and its tokens."""
