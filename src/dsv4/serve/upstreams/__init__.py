"""The servers behind the gateway: HTTP to them, what they say, and which of them is asked."""
