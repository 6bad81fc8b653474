"""The command ``nri-numamem``: one file per subcommand, and what ties the rooms together.

The runtime's side of things starts here too: put into the plugin directory and started by the
runtime, the program finds NRI's variables in its environment and needs no argument.
"""
