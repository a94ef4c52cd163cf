"""What a command may end with. Owns the exit codes and the error that a user can act on."""

from __future__ import annotations

EXIT_FINE = 0
EXIT_PROBLEM = 1
EXIT_USAGE = 2


class CliError(Exception):
    """The command cannot do what was asked: ``message`` is the fact, ``advice`` the next step."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message
