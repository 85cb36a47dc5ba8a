"""Arguments of calls checked against the schemas of their tools, and repaired to fit them."""
