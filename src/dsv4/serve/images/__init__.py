"""The images of requests on their way to an engine: where they come from, and how they are sent."""
