"""Metrics: counters, their Prometheus text, and the endpoint."""
