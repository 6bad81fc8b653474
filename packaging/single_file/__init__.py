"""Builds the single executable file: the plugin, its libraries and CPython in one ELF program.

`python -m single_file` with this folder's parent on the path, or `make dist`; see README.md.
"""
