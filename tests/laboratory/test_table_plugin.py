import socket
import struct

from nri_numamem.nri.multiplexer import Demultiplexer
from tests.laboratory import api_pb2 as api
from tests.laboratory.table_plugin import TablePlugin


def test_the_plugin_registers_when_it_starts() -> None:
    ours, theirs = socket.socketpair()
    with ours, TablePlugin(theirs, name="me", idx="42"):
        ((conn_id, message),) = Demultiplexer((1, 2)).receive_data(ours.recv(4096))
        assert conn_id == 2
        registration = api.RegisterPluginRequest(plugin_name="me", plugin_idx="42")
        assert registration.SerializeToString() in bytes(message)


def test_an_invalid_call_gets_an_error_reply() -> None:
    ours, theirs = socket.socketpair()
    with ours, TablePlugin(theirs, idx=None) as plugin:
        ours.sendall(struct.pack(">IIIIBB", 1, 10, 0, 2, 1, 0))
        ours.settimeout(10.0)
        ((conn_id, message),) = Demultiplexer((1, 2)).receive_data(ours.recv(4096))
        assert conn_id == 1
        assert message[8] == 2
        assert plugin.requests == []
