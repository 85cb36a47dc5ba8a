"""The gateway as processes: uvicorn, worker processes, signals, reloading."""
