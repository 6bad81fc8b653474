"""The program's version, written once in pyproject.toml and here; a test compares the two."""

VERSION = "0.1.0"
