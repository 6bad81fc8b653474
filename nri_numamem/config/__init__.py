"""The plugin's configuration, from files and flags."""
