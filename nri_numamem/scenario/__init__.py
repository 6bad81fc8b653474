"""Scenarios: a machine, settings, pods and steps, played without a runtime."""
