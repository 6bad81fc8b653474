"""The plugin as a process."""
