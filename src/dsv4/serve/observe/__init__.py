"""The gateway's reports of its work: metrics, records, the inspector."""
