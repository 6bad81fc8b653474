"""What the plugin tells about itself: logs, metrics and the state file.

Nothing here decides. Whatever goes wrong while telling (a full disk, a busy journal) stays here:
it is counted and told later, and never reaches the code that answers the runtime.
"""
