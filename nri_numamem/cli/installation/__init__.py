"""What `install` and `uninstall` share.

`facts` reads what is on the host, `plan` makes a list of steps from it, without access to the host,
and `steps` executes the list; if a step fails, it undoes the others.

The runtime's plugin directory needs care: the runtime starts every executable in it, and does not
start at all if the name of one does not begin with two digits and a dash. So files there get their
final name before they become executable.
"""
