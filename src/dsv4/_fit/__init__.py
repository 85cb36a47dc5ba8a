"""Arguments of calls against the schemas of their tools: what does not fit, and what makes it."""
