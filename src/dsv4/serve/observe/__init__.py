"""What the gateway shows of its work: metrics, records, the inspector."""
