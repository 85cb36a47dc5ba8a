"""Who may use the gateway, and how much: keys and limits, other sites' pages, streams at once."""
