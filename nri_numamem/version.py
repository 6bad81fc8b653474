"""The program's version: pyproject.toml and all packages take it from here."""

VERSION = "0.1.0"
