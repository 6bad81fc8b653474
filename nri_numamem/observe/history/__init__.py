"""The history: decision records in two append-only segments beside the state file.

``lines`` has the format, ``writer`` writes on the thread of the state file, and ``reader`` reads
while the plugin runs, or later. docs/state-directory.md describes the files.
"""
