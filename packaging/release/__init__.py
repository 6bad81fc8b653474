"""Builds the artefacts of a release, checks them, and describes their contents."""
