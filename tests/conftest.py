"""What holds for every test."""

import signal

from hypothesis import HealthCheck, settings

# A runner that starts the tests in the background hands SIGINT on as ignored, to every child as well.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine makes examples slow, which says nothing about them.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
