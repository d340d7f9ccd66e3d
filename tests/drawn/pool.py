"""Cases in processes of their own, which may crash or hang: their supervisor notes it, and goes on with another one.

A worker sets a timer of the processor's time before each case and leaves what it does to the system: it ends the
process, also in the middle of the core's work. A worker that waits for ever is ended by the supervisor's clock.
"""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SECONDS = 8.0  # of the processor, a case; most take hundredths
ALONE = 4  # times as much, once more, before a case is said to hang
WALL = 60.0  # times the seconds: a case that takes no time of the processor
MEMORY = 6 << 30  # bytes of addresses, so that an allocation that follows from no input fails

HERE = Path(__file__).resolve().parents[1]


class Worker:
    """A process that makes cases."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.said = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "drawn", "--worker", str(seconds)],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
        )

    def make(self, case: str) -> dict[str, Any]:
        """Send a case and wait for what came of it; a worker that dies in it is told of as a fault."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], WALL * self.seconds)
        line = self.process.stdout.readline() if ready else ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        if not ready:
            self.process.kill()
        code = self.process.wait()
        waits = not ready or code == -signal.SIGPROF
        self.said.seek(0)
        last = self.said.read()[-300:].decode(errors="replace")
        fault = "hang" if waits else f"crash: exit status {code}, {last}"
        return {"case": case, "outcome": "hang" if waits else "crash", "faults": [fault]}

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.said):
            assert stream
            stream.close()


def run(cases: Iterable[str], seconds: float = SECONDS) -> Iterator[dict[str, Any]]:
    """Make cases one after the other; a hang is told of after a second try, alone and with more time."""
    worker = Worker(seconds)
    try:
        for case in cases:
            answer = worker.make(case)
            if answer["outcome"] in ("hang", "crash"):
                worker.end()
                if answer["outcome"] == "hang":
                    worker = Worker(ALONE * seconds)
                    answer = worker.make(case)
                    worker.end()
                worker = Worker(seconds)
            yield answer
    finally:
        worker.end()
