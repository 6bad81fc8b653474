"""The setting `networkHints`: which network interfaces count as hints."""

NETWORK_HINTS = "networkHints"
OFF, SECONDARY, ALL = "off", "secondary", "all"

NETWORK_HINTS_CHOICES = (OFF, SECONDARY, ALL)
"""The first value is the default."""
