"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# A machine that has other work to do is no fault of a test.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
