"""The plugin's side of NRI, the Node Resource Interface of containerd and CRI-O.

From the socket inwards:

| module | contents |
|---|---|
| `event_loop`, `poller` | the plugin's socket: reading, writing, timers |
| `multiplexer` | two ttrpc connections, one in each direction, on one stream |
| `session` | the protocol of one connection without I/O: bytes in, bytes out |
| `plugin_service` | the methods that the runtime calls: decode, decide, encode |
| `request_ids` | the id that all records of one request share |
| `synchronize_parts` | the parts of a Synchronize |
| `decode`, `encode` | messages to events of the engine, plans of the engine to replies |
| `messages` | pods and containers in messages |
| `host_facts` | what the decoder reads from the host |
| `protobuf_version` | known vulnerabilities of the installed protobuf |
| `nri_subset_pb2` | the messages and fields that the plugin uses (api/nri_subset.proto) |

A session needs a ``Handler``, which applies the configuration and decides about events, and a
``Decoder``. Here the handler places each new container's memory on node 1, and the fake runtime
of `tests/laboratory` plays containerd in another thread:

>>> import socket, threading
>>> from nri_numamem.engine.core.events import CreateContainer
>>> from nri_numamem.engine.core.plan import Adjustment, Plan
>>> from tests.laboratory import objects
>>> from tests.laboratory.runtime import FakeRuntime
>>> from nri_numamem.nri.decode import Decoder
>>> from nri_numamem.nri.session import PluginSession
>>> class NodeOne:
...     def configure(self, configuration): ...
...     def decide(self, event):
...         if isinstance(event, CreateContainer):
...             return Plan(adjustment=Adjustment(cpuset_mems="1"))
...         return Plan()
>>> session = PluginSession(NodeOne(), Decoder(), plugin_name="node-one", plugin_idx="10")
>>> plugin_socket, runtime_socket = socket.socketpair()
>>> def serve():
...     plugin_socket.sendall(session.start())
...     while data := plugin_socket.recv(65536):
...         plugin_socket.sendall(session.receive_data(data))
>>> plugin = threading.Thread(target=serve)
>>> plugin.start()
>>> with FakeRuntime() as runtime:
...     _ = runtime.attach(runtime_socket)
...     pod = runtime.run_pod_sandbox(objects.pod("db"))
...     container = runtime.create_container(pod, objects.container(pod, "server"))
>>> container.linux.resources.cpu.mems
'1'
>>> plugin.join()
>>> plugin_socket.close()

The package implements what runtimes of every NRI version send and tolerate. Placement is decided in
`engine`.
"""
