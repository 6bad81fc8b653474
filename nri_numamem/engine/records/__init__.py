"""The records of the engine's decisions, and the table of all events."""
