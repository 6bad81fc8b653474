"""Whether runtime and kernel can set a policy."""

from nri_numamem.engine.core.events import PolicyRequest, PolicySupport
from nri_numamem.engine.features.memory_policies.support import unsupported
from nri_numamem.numa import PolicyMode

BIND = PolicyMode.BIND


def test_runtime_and_kernel_must_support_the_mode() -> None:
    assert unsupported(PolicyRequest(), BIND) == ""
    missing = PolicyRequest(support=PolicySupport(missing_modes=frozenset({BIND})))
    assert unsupported(missing, BIND) == "the kernel lacks the mode bind"
    assert unsupported(missing, PolicyMode.LOCAL) == ""
    old = PolicyRequest(support=PolicySupport("the NRI is too old", frozenset({BIND})))
    assert unsupported(old, BIND) == "the NRI is too old"
