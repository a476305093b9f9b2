"""The launch hook: refuses to start training on a stack that is not its profile's."""

from typing import Literal


def require(
    profile: str,
    *,
    mode: Literal["enforce", "warn", "off"] | None = None,
    reason: str = "",
) -> None:
    """Let the caller go on when the running environment is what `profile` wants."""
