import socket
import struct

from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.mux import Demultiplexer
from nri_numamem.nri.runtime_testing import ScriptedPlugin


def test_it_registers_by_itself() -> None:
    ours, theirs = socket.socketpair()
    with ours, ScriptedPlugin(theirs, name="me", idx="42"):
        ((conn_id, message),) = Demultiplexer((1, 2)).receive_data(ours.recv(4096))
        assert conn_id == 2
        registration = api.RegisterPluginRequest(plugin_name="me", plugin_idx="42")
        assert registration.SerializeToString() in bytes(message)


def test_it_refuses_what_is_no_call() -> None:
    ours, theirs = socket.socketpair()
    with ours, ScriptedPlugin(theirs, idx=None) as plugin:
        ours.sendall(struct.pack(">IIIIBB", 1, 10, 0, 2, 1, 0))
        ours.settimeout(10.0)
        ((conn_id, message),) = Demultiplexer((1, 2)).receive_data(ours.recv(4096))
        assert conn_id == 1
        assert message[8] == 2
        assert plugin.requests == []
