"""The gateway as processes: uvicorn, worker processes, signals, what is reloaded."""
