"""The runtime side of NRI without containers, for tests and for `nri-numamem demo`.

A ``FakeRuntime`` accepts or launches a plugin and sends the requests that containerd and CRI-O send
during the life of pods and containers, in the NRI version of its ``RuntimeVersion``. It applies the
plugin's replies to its ``RuntimeStore`` and raises ``ProtocolViolation`` for a reply that breaks
NRI's rules. It runs in the caller's thread, and every wait has a timeout.

>>> import socket
>>> from nri_numamem.fake_runtime import objects
>>> from nri_numamem.fake_runtime.runtime import FakeRuntime
>>> from nri_numamem.fake_runtime.table_plugin import TablePlugin
>>> from nri_numamem.nri import api_pb2 as api
>>> adjustment = api.CreateContainerResponse()
>>> adjustment.adjust.linux.resources.cpu.mems = "1"
>>> replies = {"CreateContainer": lambda _payload: adjustment.SerializeToString()}
>>> ours, theirs = socket.socketpair()
>>> with FakeRuntime() as runtime, TablePlugin(theirs, replies):
...     _ = runtime.attach(ours)
...     pod = runtime.run_pod_sandbox(objects.pod("db"))
...     container = runtime.create_container(pod, objects.container(pod, "server"))
>>> container.linux.resources.cpu.mems
'1'

``listen`` and ``accept`` serve an external plugin on a Unix socket; ``launch`` starts a plugin as a
process.

| module | contents |
|---|---|
| `runtime` | ``FakeRuntime``: operations on pods and containers |
| `link` | its base: connections, registration, Synchronize |
| `plugin` | one connected plugin: calls, timeouts, subscriptions |
| `connection`, `frames` | the socket; checks of the plugin's frames |
| `launch` | plugins as processes |
| `objects` | builders of pods and containers |
| `results` | rules for replies, and their effect |
| `store` | pods and containers, kept across restarts of the runtime |
| `version` | differences between runtimes |
| `table_plugin` | a plugin with replies from a table, to test all of this |
"""
