"""The conversation with the container runtime over the Node Resource Interface.

From the socket inwards: the multiplexer carries two ttrpc connections over one stream, one in
each direction; the generated messages (`plugin_pb2`, from api/plugin.proto) give its bytes their
meaning; decode turns a request into an event of the engine and encode turns the engine's plan
into a reply; the session registers, configures and synchronizes the plugin and connects anew
when the runtime goes away. The runtime's side of all this lives here too, for tests, and speaks
NRI's messages as a whole (`api_pb2`, from api/nri.proto).

This package knows what runtimes of every version send and tolerate. It knows nothing of memory
policy: which nodes a container gets is decided elsewhere, before encode is called.
"""
