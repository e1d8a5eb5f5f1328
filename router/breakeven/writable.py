"""Whether what the settings want written can be written: found out without writing, or leaving, anything.

Opened as `serve` opens it, a file would be there afterwards, and belong to whoever has checked.
"""

import errno
import os
from pathlib import Path

from breakeven.check import Finding, Severity
from breakeven.clock import utc_now
from breakeven.config import Settings
from breakeven.recorders import JOURNAL_NAME, CannotTraceError, open_tracing


def judge_outputs(settings: Settings) -> list[Finding]:
    """What would keep `serve` from starting."""
    findings = []
    for setting, place in (("access_log", settings.access_log), ("journal", settings.journal)):
        number = 0 if place in {"off", "stderr"} else trouble(_file(setting, Path(place)))
        if number:
            why = os.strerror(number).lower()
            findings.append(Finding(Severity.PROBLEM, f"{setting}: cannot write {place}: {why}"))
    try:
        with open_tracing(settings, utc_now):
            pass
    except CannotTraceError as error:
        findings.append(Finding(Severity.PROBLEM, str(error)))
    return findings


def trouble(path: Path) -> int:
    """The number of the error that this user would meet on appending to that file; 0: none."""
    if path.is_file():
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
        except OSError as error:
            return error.errno or errno.EIO
        return 0
    if path.is_dir():
        return errno.EISDIR
    if path.exists():  # a pipe, or the like: opening one would be heard at its other end
        return 0 if os.access(path, os.W_OK) else errno.EACCES
    if not path.parent.exists():
        return errno.ENOENT
    if not path.parent.is_dir():
        return errno.ENOTDIR
    return 0 if os.access(path.parent, os.W_OK | os.X_OK) else errno.EACCES


def _file(setting: str, path: Path) -> Path:
    return path / JOURNAL_NAME if setting == "journal" and path.is_dir() else path
