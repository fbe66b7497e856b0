"""Lets an operator give an account all its requests back (D8)."""

from app.actions import Subject, changing, record
from app.actor import Actor
from app.serve.limits.bucket import Outcome, Rate
from app.serve.limits.store import LimitStore, account_slot
from app.storage.engine import Engine


def reset_limit(
    engine: Engine,
    store: LimitStore,
    account_id: int,
    account_name: str,
    rate: Rate,
    *,
    actor: Actor | None = None,
) -> Outcome:
    """Fill the bucket of an account, and record who did it (D130).

    Args:
        rate: the rate of the account's plan.
        actor: None for whoever runs this process.

    Raises StoreError if the file cannot be used; then nothing is recorded.
    """
    slot = account_slot(account_id)
    with changing(engine):
        left = store.peek(slot, rate).remaining
        subject = Subject("account", account_name, account_name)
        states = {"remaining": left}, {"remaining": rate.limit}
        record(engine, actor, "limits.reset", subject, *states)
        # Last, because the file takes no part in the transaction.
        return store.fill(slot, rate)
