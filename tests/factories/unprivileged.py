"""The envdoctor command, or a program after `-c`, without root's power over permissions: for tests that run as root.

Run as a program in place of `python -m envdoctor`: drops CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER from the
bounding set (prctl(2), PR_CAPBSET_DROP) and then executes the real command.
"""

import ctypes
import os
import sys

_PR_CAPBSET_DROP = 24
_CAPABILITIES = (1, 2, 3)

if __name__ == "__main__":
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in _CAPABILITIES:
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "PR_CAPBSET_DROP")
    program = sys.argv[1:] if sys.argv[1] == "-c" else ["-m", "envdoctor", *sys.argv[1:]]
    os.execv(sys.executable, [sys.executable, *program])  # noqa: S606 - it becomes the command
