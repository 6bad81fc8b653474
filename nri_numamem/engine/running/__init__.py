"""Containers that run already: those of a Synchronize, and those that were never reported."""
