"""Decisions on containers in the history, for ``explain`` and ``status``."""
