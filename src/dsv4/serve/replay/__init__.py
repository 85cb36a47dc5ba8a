"""What the model sampled, kept to stand in later prompts as it was sampled."""
