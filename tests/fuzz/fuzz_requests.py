"""Every method of the plugin's service, with any payload, down to a real engine and back.

A payload is any bytes, or a message that is drawn field by field. Errors are answered for bytes
that are no message, and for refusals of CreateContainer; a reply is a message of the method's
type; and the records tell of no bug.
"""

from collections.abc import Iterable, Mapping

from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import Event
from nri_numamem.engine.plan import Plan, flattened
from nri_numamem.memorymanager import NodeSet
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.decode import Decoder, Device
from nri_numamem.nri.methods import METHODS, Configuration, PluginMethods
from nri_numamem.ttrpc import Code, StatusError
from tests.fuzz.choices import Choices
from tests.fuzz.hosts import check_engine, check_records, draw_engine
from tests.fuzz.messages import fill

CALLS_MOST = 40
NAMES = tuple(METHODS)
_SERVICE = api.DESCRIPTOR.services_by_name["Plugin"]
_REPLIES = {method.name: getattr(api, method.output_type.name) for method in _SERVICE.methods}


class EngineHandler:
    """What a session needs around it, with an engine that is checked after every event."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def configure(self, configuration: Configuration) -> None:
        """Take any configuration."""
        assert configuration.survives_refusal in (False, True)

    def handle(self, event: Event) -> Plan:
        """Answer an event."""
        plan = self.engine.handle(event)
        check_engine(self.engine)
        return plan


def new_decoder(choices: Choices) -> Decoder:
    """Return a decoder for which every pod has some limit, and every device a node."""
    limits = choices.pick(({}, {2 << 20: 8 << 20}, {2 << 20: 2 << 20, 1 << 30: 1 << 30}))

    def pod_hugepages(_cgroup_parent: str) -> Mapping[int, int]:
        return limits

    def device_nodes(_cgroup_parent: str, devices: Iterable[Device]) -> tuple[NodeSet, ...]:
        return tuple(NodeSet([device.minor % 1024]) for device in devices)

    return Decoder(pod_hugepages, device_nodes)


def draw_payload(choices: Choices, name: str) -> bytes:
    """Return the payload of a call."""
    if choices.below(8) == 7:
        return choices.block()
    message = METHODS[name].request()
    fill(message, choices)
    return message.SerializeToString()


def _check_error(name: str, error: StatusError) -> None:
    is_refusal = error.code is Code.UNKNOWN and name == "CreateContainer"
    assert is_refusal or error.code is Code.INTERNAL
    assert error.message


def one_input(data: bytes) -> None:
    """Make the calls that the bytes stand for."""
    choices = Choices(data)
    handler = EngineHandler(draw_engine(choices))
    methods = PluginMethods(handler, new_decoder(choices))
    for _ in range(CALLS_MOST):
        if not choices:
            break
        name = choices.pick(NAMES)
        payload = draw_payload(choices, name)
        try:
            reply = methods.serve(METHODS[name], payload)
        except StatusError as error:
            _check_error(name, error)
        else:
            _REPLIES[name].FromString(reply)
        check_records(flattened(methods.records))
        methods.records.clear()
