"""Builds the container image, without a container engine; see README.md."""
