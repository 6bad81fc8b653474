"""Logs, metrics, the state file and notifications to systemd.

Nothing in this room decides. Failures (a full disk, a busy journal) stay in this room: they are
counted and logged later, and never reach the code that serves the runtime.
"""
