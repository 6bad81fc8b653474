"""The engine: events in, plans out.

Everything that changes the plugin's state enters through ``Engine.handle(event) -> Plan``. The
package is pure: no clock, files, sockets, logs or chance, so that a node's life can be replayed
from its events. It binds the kubelet's two managers to what a container runtime tells.
"""
