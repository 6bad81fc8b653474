"""Structured logs and where they go."""
