"""The driver of resource claims: the kubelet's calls, and what the plugin answers.

The kubelet prepares the claims of a pod before it makes the pod's sandbox. This process has the
credentials to read what the scheduler allocated, and only the plugin changes the accounting. So a
claim passes through files (``observe.claim_files``):

1. read the ResourceClaim from the API server,
2. write an intent with a new attempt,
3. wait for the plugin's answer to this attempt (``claim_store``),
4. reply to the kubelet with the devices, or with the reason.

A claim that is charged already needs no new attempt: the kubelet prepares claims again after it
restarts, and the plugin may be restarting then too. To unprepare, the intent is removed; that never
waits for the plugin. Calls run on several threads; those that prepare one claim, one by one.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import PurePath
from typing import Final

from nri_numamem.apiserver.access import AccessError
from nri_numamem.apiserver.client import Answer, Request, RequestError
from nri_numamem.engine.records.export import (
    DeletedClaimReleased,
    PrepareFailed,
    PrepareSucceeded,
    UnprepareFailed,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.export.allocation import Allocation, AllocationError, allocation_of
from nri_numamem.export.requests import (
    REMEDIES,
    FailureKind,
    claim_path,
    failure_of_claim,
    is_missing,
)
from nri_numamem.export.resourceslice import DRIVER
from nri_numamem.exporter.claim_store import ClaimStore
from nri_numamem.grpc import Code, Handler, StatusError
from nri_numamem.kubelet import dra
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe.cdi import device_id
from nri_numamem.observe.claim_files import is_uid
from nri_numamem.observe.files import reason_of

PREPARE_S: Final = 40.0
"""For all claims of a call, from its begin; the kubelet waits 45 s."""
CALLS: Final = 128
"""Calls of the kubelet that run at a time: more than the 110 pods of a usual host. While the plugin
is away, each waits for PREPARE_S."""
REQUEST_BYTES: Final = 64 << 10
"""Some 500 claims; the kubelet sends those of one pod."""


class ClaimError(Exception):
    """A claim is not prepared; the text is the reason that the kubelet shows."""


class ClaimDriver:
    """Serves the kubelet; `send` may be called on several threads at a time."""

    def __init__(
        self,
        node_name: str,
        store: ClaimStore,
        send: Callable[[Request], Answer],
        emit: Callable[[Record], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node_name = node_name
        self._store = store
        self._send = send
        self._emit = emit
        self._clock = clock
        # The uids of claims that are being prepared, and what guards them.
        self._busy: set[str] = set()
        self._changed = threading.Condition()

    def methods(self) -> dict[str, Handler]:
        """Return method -> handler."""
        return {
            dra.NODE_PREPARE_RESOURCES: self._prepare_all,
            dra.NODE_UNPREPARE_RESOURCES: self._unprepare_all,
        }

    def _prepare_all(self, payload: bytes, _timeout_s: float | None) -> bytes:
        end_s = self._clock() + PREPARE_S
        with _invalid_argument():
            claims = dra.claims_to_prepare(payload)
        return dra.prepare_reply({claim.uid: self._prepare(claim, end_s) for claim in claims})

    def _prepare(self, claim: dra.ClaimName, end_s: float) -> list[dra.PreparedDevice] | str:
        """Return the devices of a claim, or why it is not prepared."""
        begin_s = self._clock()
        try:
            allocation = self._allocation(claim)
            with self._exclusive(claim.uid, end_s):
                is_new = self._charge(allocation.claim, end_s)
        except ClaimError as error:
            cause = str(error)
            self._emit(
                PrepareFailed(
                    claim=claim.name, namespace=claim.namespace, claim_uid=claim.uid, cause=cause
                )
            )
            return cause
        self._emit(
            PrepareSucceeded(
                claim=claim.name,
                namespace=claim.namespace,
                claim_uid=claim.uid,
                duration_ms=round(1000 * (self._clock() - begin_s)),
                already_charged=not is_new,
            )
        )
        return list(_devices(allocation, self._node_name))

    def _allocation(self, claim: dra.ClaimName) -> Allocation:
        try:
            answer = self._send(Request("GET", claim_path(claim.namespace, claim.name)))
        except AccessError as error:
            raise ClaimError(f"cannot read the claim: {error}") from error
        except RequestError as error:
            remedy = REMEDIES[FailureKind.UNREACHABLE]
            raise ClaimError(f"cannot read the claim: {error}; {remedy}") from error
        failure = failure_of_claim(answer.status, answer.document)
        if failure is not None:
            raise ClaimError(f"cannot read the claim: {failure.cause}; {failure.remedy}")
        try:
            return allocation_of(answer.document, claim.uid, self._node_name)
        except AllocationError as error:
            raise ClaimError(str(error)) from error

    @contextmanager
    def _exclusive(self, uid: str, end_s: float) -> Iterator[None]:
        """Wait for other calls that prepare this claim, such as for another pod that uses it."""
        with self._changed:
            left_s = end_s - self._clock()
            if not self._changed.wait_for(lambda: uid not in self._busy, max(0.0, left_s)):
                raise ClaimError("another call that prepares this claim waits for the plugin")
            self._busy.add(uid)
        try:
            yield
        finally:
            with self._changed:
                self._busy.discard(uid)
                self._changed.notify_all()

    def _charge(self, claim: Claim, end_s: float) -> bool:
        """Let the plugin charge a claim; return whether it was not charged before."""
        if self._store.is_charged(claim):
            return False
        if not is_uid(claim.uid):
            raise ClaimError(f"{claim.uid[:100]!r} is not the uid of a claim")
        try:
            attempt = self._store.begin(claim)
        except OSError as error:
            cause = f"cannot write the claim for the plugin: {reason_of(error)}"
            raise ClaimError(cause) from error
        answer = self._store.wait(claim.uid, attempt, end_s)
        if answer is None:
            raise ClaimError(self._why_unanswered())
        if answer.refusal:
            raise ClaimError(answer.refusal)
        return True

    def _why_unanswered(self) -> str:
        if self._store.is_closing:
            return "nri-numamem agent stops; the kubelet tries again"
        problem = self._store.problem or f"no answer within {PREPARE_S:.0f} s"
        return (
            f"the plugin nri-numamem does not answer: {problem}; check that it runs with resource "
            "claims enabled (nri-numamem doctor)"
        )

    def release_deleted(self) -> None:
        """Release claims that do not exist any more, if the kubelet has not unprepared them.

        A claim is not deleted while a pod may use it, and the plugin keeps it charged while a
        container does. Without an answer of the API server nothing is released.
        """
        for intent in self._store.intents():
            claim = intent.claim
            try:
                answer = self._send(Request("GET", claim_path(claim.namespace, claim.name)))
            except (AccessError, RequestError):
                return
            if _is_deleted(claim, answer):
                with suppress(OSError):  # the next time
                    self._store.remove(claim.uid)
                    self._emit(
                        DeletedClaimReleased(
                            claim=claim.name, namespace=claim.namespace, claim_uid=claim.uid
                        )
                    )

    def _unprepare_all(self, payload: bytes, _timeout_s: float | None) -> bytes:
        with _invalid_argument():
            claims = dra.claims_to_unprepare(payload)
        return dra.unprepare_reply({claim.uid: self._unprepare(claim) for claim in claims})

    def _unprepare(self, claim: dra.ClaimName) -> str:
        """Return why a claim is not unprepared, "" if it is."""
        try:
            self._store.remove(claim.uid)
        except OSError as error:
            cause = f"cannot remove the claim for the plugin: {reason_of(error)}"
            self._emit(
                UnprepareFailed(
                    claim=claim.name, namespace=claim.namespace, claim_uid=claim.uid, cause=cause
                )
            )
            return cause
        return ""


def registration_methods(
    endpoint: PurePath, registered: Callable[[str], None]
) -> dict[str, Handler]:
    """Return the methods by which the kubelet finds the driver.

    `registered` receives why the kubelet does not use the driver, "" if it does.
    """

    def get_info(_payload: bytes, _timeout_s: float | None) -> bytes:
        return dra.plugin_info(DRIVER, endpoint)

    def notify(payload: bytes, _timeout_s: float | None) -> bytes:
        with _invalid_argument():
            registered(dra.registration_error(payload))
        return dra.registration_reply()

    return {dra.GET_INFO: get_info, dra.NOTIFY_REGISTRATION_STATUS: notify}


def _is_deleted(claim: Claim, answer: Answer) -> bool:
    """Return whether there is no such claim, or only another one of its name."""
    metadata = answer.document.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, Mapping) else None
    is_other = answer.status == HTTPStatus.OK and uid not in (None, claim.uid)
    return is_other or is_missing(answer.status, answer.document, claim.name)


def _devices(allocation: Allocation, node_name: str) -> Iterator[dra.PreparedDevice]:
    """Yield the devices of a claim.

    The first device of a request has the CDI device of the request, so that a container has the
    hook once.
    """
    uid, requests = allocation.claim.uid, set()
    for device in allocation.devices:
        cdi_ids = () if device.request in requests else (device_id(uid, device.request),)
        requests.add(device.request)
        yield dra.PreparedDevice(device.request, node_name, device.name, cdi_ids, device.share_id)


@contextmanager
def _invalid_argument() -> Iterator[None]:
    try:
        yield
    except dra.DraError as error:
        raise StatusError(Code.INVALID_ARGUMENT, str(error)) from error
