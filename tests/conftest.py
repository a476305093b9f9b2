"""What holds for every test."""

import signal

# A runner that starts the tests in the background hands SIGINT on as ignored, to every child as well.
signal.signal(signal.SIGINT, signal.default_int_handler)
