"""Memory policies of containers, and even groups (`memoryPolicy`)."""
