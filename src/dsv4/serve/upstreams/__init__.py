"""The servers behind the gateway: HTTP to them, their answers, and the choice between them."""
