"""Checks of what resource claims need on the host: hook program, CDI, agent."""

import os
from collections.abc import Iterator

from nri_numamem.cli.doctor.findings import Finding, Verdict, reads_files
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation import hook_program
from nri_numamem.cli.runtimes import Runtime, runtimes
from nri_numamem.config.settings import Settings
from nri_numamem.observe.claim_files import ClaimFileError, directory_of, read_answers, read_intents
from nri_numamem.observe.files import reason_of

_REGISTRATION = "/var/lib/kubelet/plugins_registry/numamem.io-reg.sock"


@reads_files("claims")
def check_claims(host: Host, settings: Settings | None) -> Iterator[Finding]:
    """Check what the setting claims needs; without the setting that no claim is prepared."""
    if settings is None:
        return
    if settings.claims.enabled:
        yield _check_program(host, settings.claims.hook_program)
        for runtime in runtimes(host):
            yield _check_cdi(runtime, settings.claims.cdi_directory)
        yield _check_agent(host)
    if settings.state_file_or_default:
        yield from _check_intents(host, settings)


def _check_program(host: Host, path: str) -> Finding:
    program = host.entry(path)
    remedy = "install the package, or run nri-numamem install of the single executable file"
    if not program.is_file() or not os.access(program, os.X_OK):
        text = f"{path} does not exist or is not executable: no container with a claim starts"
        return Finding("claim_hook", Verdict.FAIL, text, remedy)
    if os.statvfs(program).f_flag & os.ST_NOEXEC:
        text = f"{path} is on a file system mounted noexec: no container with a claim starts"
        return Finding("claim_hook", Verdict.FAIL, text, "set claims.hookProgram to another place")
    if hook_program.missing(host, path) is not None:
        text = f"{path} is not the hook program of this version"
        return Finding("claim_hook", Verdict.WARN, text, remedy)
    return Finding("claim_hook", Verdict.OK, f"{path} checks containers with claims")


def _check_cdi(runtime: Runtime, directory: str) -> Finding:
    if runtime.has_cdi is False:
        remedy = "set enable_cdi = true there, and restart the runtime"
        return Finding("cdi", Verdict.FAIL, f"{runtime.file} disables CDI", remedy)
    known = [_plain(each) for each in runtime.cdi_directories]
    if _plain(directory) not in known:
        text = f"{runtime.name} reads CDI specifications from {', '.join(known)}, not {directory}"
        return Finding("cdi", Verdict.FAIL, text, f"set claims.cdiDirectory to {known[-1]}")
    if runtime.has_cdi is None:
        text = f"{runtime.file} does not set enable_cdi, which is on by default from containerd 2"
        return Finding("cdi", Verdict.OK, f"{text}; set it with containerd 1.7")
    return Finding("cdi", Verdict.OK, f"{runtime.name} adds CDI devices from {directory}")


def _plain(directory: str) -> str:
    """Return a directory without the link /var/run."""
    return directory.rstrip("/").replace("/var/run/", "/run/")


def _check_agent(host: Host) -> Finding:
    if host.entry(_REGISTRATION).is_socket():
        return Finding("claim_agent", Verdict.OK, "the agent offers its driver to the kubelet")
    text = f"{_REGISTRATION} does not exist: no agent offers the driver numamem.io to the kubelet"
    remedy = "run nri-numamem agent --claims; docs/claims.md describes it"
    return Finding("claim_agent", Verdict.FAIL, text, remedy)


def _check_intents(host: Host, settings: Settings) -> Iterator[Finding]:
    directory = directory_of(host.path(settings.state_file_or_default))
    try:
        intents, replies = read_intents(directory), read_answers(directory)
    except OSError as error:
        yield Finding("claims", Verdict.UNKNOWN, f"{directory}: {reason_of(error)}", "run as root")
        return
    except ClaimFileError as error:
        yield Finding("claims", Verdict.FAIL, str(error), "restart agent and plugin")
        return
    count = len(intents.uids)
    if count and not settings.claims.enabled:
        text = f"{_claims(count)} prepared, and the setting claims.enabled is off: "
        text += "containers with claims do not start"
        remedy = "set claims.enabled: true and restart the plugin, or delete the pods with claims"
        yield Finding("claims", Verdict.FAIL, text, remedy)
        return
    waiting = [
        str(each.claim)
        for each in intents.found
        if (reply := replies.get(each.claim.uid)) is None or reply.attempt != each.attempt
    ]
    if waiting:
        text = f"the plugin has not answered {_claims(len(waiting))}: {', '.join(waiting[:3])}"
        remedy = "check that the plugin runs and is connected; the pods wait"
        yield Finding("claims", Verdict.WARN, text, remedy)
    elif settings.claims.enabled:
        refused = sum(bool(reply.refusal) for reply in replies.values())
        text = f"{_claims(count)} prepared{f', {refused} of them refused' * bool(refused)}"
        yield Finding("claims", Verdict.OK, text)


def _claims(count: int) -> str:
    return "1 claim" if count == 1 else f"{count} claims"
