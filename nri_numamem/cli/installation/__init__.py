"""Puts the plugin onto a host, and takes it away: what `install` and `uninstall` share.

`facts` reads what is there, `plan` makes a list of steps of it, without any access to the host,
`steps` executes the list, and takes back what it did if a step fails.

The runtime's plugin directory needs care: the runtime starts every executable in it, and does not
start at all if the name of one does not begin with two digits and a dash. So files there get their
final name before they become executable.
"""
