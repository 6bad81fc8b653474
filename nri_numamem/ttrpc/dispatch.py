"""From a received request to its reply: the table of services, and the handlers' errors as codes.

    Services: service name -> method name -> Handler(request, deadline in ns) -> reply payload

A handler gets and returns protobuf bytes and knows nothing of connections. Its deadline is the
moment when the caller stops waiting, on the clock of the moment of arrival; None for never. This
file knows no sockets and reads no clock; the moment of arrival is an argument.
"""

from collections.abc import Callable, Mapping

from nri_numamem.ttrpc.envelope import Request
from nri_numamem.ttrpc.server import RequestReceived, ServerConnection
from nri_numamem.ttrpc.status import Code, StatusError

Handler = Callable[[Request, int | None], bytes]
Services = Mapping[str, Mapping[str, Handler]]


def find_handler(services: Services, service: str, method: str) -> Handler:
    """Return the handler; StatusError with code 12 and the text that Go servers use."""
    methods = services.get(service)
    if methods is None:
        raise StatusError(Code.UNIMPLEMENTED, f"service {service}")
    handler = methods.get(method)
    if handler is None:
        raise StatusError(Code.UNIMPLEMENTED, f"method {method}")
    return handler


def answer(
    connection: ServerConnection, services: Services, event: RequestReceived, now_ns: int
) -> bytes:
    """Run the handler of a request; return the bytes of its reply. Raises nothing of its own.

    `now_ns` is the moment of arrival on the clock that the handlers compare deadlines with.
    A handler's StatusError becomes the reply's status, TimeoutError code 4; any other
    exception is logged with its traceback and becomes code 2 with its text.
    """
    request = event.request
    deadline_ns = now_ns + request.timeout_ns if request.timeout_ns else None
    try:
        handler = find_handler(services, request.service, request.method)
        return connection.reply(event.stream_id, handler(request, deadline_ns))
    except StatusError as error:
        return connection.reply_error(event.stream_id, error.code, error.message)
    except TimeoutError as error:
        return connection.reply_error(event.stream_id, Code.DEADLINE_EXCEEDED, str(error))
    except Exception as error:  # a handler's bug ends its call only
        import logging  # noqa: PLC0415 - a program that logs otherwise never needs it

        log = logging.getLogger(__name__)
        log.exception("the handler of %s/%s failed", request.service, request.method)
        return connection.reply_error(event.stream_id, Code.UNKNOWN, str(error) or repr(error))
