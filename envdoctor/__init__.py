"""envdoctor diagnoses PyTorch/CUDA environments without importing them, and rebuilds a locked stack.

`check`, `why` and `diff` are the Python interface (docs/api.md). They are loaded when they are first asked for, so that
`import envdoctor` costs nothing.
"""

TYPE_CHECKING = False  # a type checker takes it for true; importing typing costs more than this module
if TYPE_CHECKING:
    from envdoctor.api import Answer, Comparison, EnvdoctorError, Verdict, check, diff, why

__all__ = ["Answer", "Comparison", "EnvdoctorError", "Verdict", "__version__", "check", "diff", "why"]
__version__ = "0.4.0"


def __getattr__(name: str) -> object:
    if name in __all__:
        from envdoctor import api  # noqa: PLC0415 - the point of this function

        found: object = getattr(api, name)
        return found
    if name == "load_ipython_extension":  # what `%load_ext envdoctor` asks for
        from envdoctor import notebook  # noqa: PLC0415

        return notebook.load_ipython_extension
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
