"""One function a command: a workspace goes in, a result comes out. Nothing is parsed, printed or asked here."""
