"""Settings of all tests."""

from hypothesis import settings

# Machines are shared and noisy: how long an example takes says nothing.
settings.register_profile("numamem", deadline=None)
settings.load_profile("numamem")
