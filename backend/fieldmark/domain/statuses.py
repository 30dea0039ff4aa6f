"""How things stand: the statuses that SQL knows too. tests/sql/test_statuses.py holds both against each other."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """How a run stands. It goes on by itself from the first two, by a person's decision from the third, by the end of
    its child runs from the fourth, and never from the last three."""

    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    AWAITING_RUNS = "awaiting_runs"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


class Approval(StrEnum):
    """Who admits an agent's writes: the policy, or a person, one by one."""

    AUTO = "auto"
    ASK = "ask"


class CallStatus(StrEnum):
    """How a call stands.

    PENDING   a person is asked
    ADMITTED  it may run, by policy or by a person's word
    WAITING   it has started child runs that have not all ended
    REFUSED   it never ran: its arguments were wrong, or a person said no
    DONE, FAILED   it ran, and its result is recorded
    """

    PENDING = "pending"
    ADMITTED = "admitted"
    WAITING = "waiting"
    REFUSED = "refused"
    DONE = "done"
    FAILED = "failed"
