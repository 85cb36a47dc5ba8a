"""The images of requests on their way to an engine: their sources, and their form for engines."""
