"""The engine: events in, plans out.

``Engine.decide(event)`` returns the plan for the reply; ``Engine.commit()`` then changes the state
and returns the records. The package is pure: no clock, files, sockets, logs or randomness, so the
same events always give the same state. It applies the kubelet's two managers to the requests of a
container runtime.

The path of a creation: ``engine``, ``containers``, ``placement``. The values: ``events``,
``policy``, ``context``, ``state``, ``plan``. Packages:

- ``records``   what decisions record, and the table of all events
- ``features``  what the kubelet lacks; off by default
- ``queries``   what is computed from a committed state, for commands and dumps
"""
