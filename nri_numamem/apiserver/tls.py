"""TLS to the API server, by the standard library's ``ssl``.

An interpreter can be built without it. It takes some 10 MiB, so it is imported for a request only.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from nri_numamem.apiserver.access import Access, AccessError

if TYPE_CHECKING:
    import ssl

NO_TLS = (
    "this Python was built without TLS, so it cannot write to an API server; use the single "
    "executable file, the container image, or a Python that has the module ssl"
)


def require() -> None:
    """Raise AccessError if the interpreter has no TLS."""
    try:
        import ssl  # noqa: F401, PLC0415 - see above
    except ImportError as error:
        raise AccessError(NO_TLS) from error


def new_context(access: Access) -> ssl.SSLContext:
    """Return a context that verifies the server and has the client's certificate.

    Raises AccessError for certificates that cannot be used.
    """
    require()
    import ssl  # noqa: PLC0415 - see above

    try:
        context = ssl.create_default_context(cadata=access.authorities or None)
    except ssl.SSLError as error:
        raise AccessError(f"the certificates of the authority: {_reason(error)}") from error
    # As client-go: authorities without some extensions, and intermediate ones, are accepted.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if access.certificate:
        try:
            _load(context, access)
        except (OSError, ssl.SSLError) as error:
            raise AccessError(f"the client certificate and its key: {_reason(error)}") from error
    return context


def _load(context: ssl.SSLContext, access: Access) -> None:
    """Load the client's certificate; ssl reads files only, and memory is one without a disk."""
    with ExitStack() as stack:
        certificate = _memory_file(access.certificate, stack)
        key = _memory_file(access.key, stack)
        # Without a function OpenSSL reads the password of an encrypted key from the terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")


def _memory_file(data: bytes, stack: ExitStack) -> str:
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    file = stack.enter_context(os.fdopen(descriptor, "wb"))
    file.write(data)
    file.flush()
    return f"/proc/self/fd/{descriptor}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or "cannot be used"
