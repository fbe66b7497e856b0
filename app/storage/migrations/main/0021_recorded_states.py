"""Add which state of a watch the audit trail has (D187)."""


def up(migrator, db):
    for statement in (
        "ALTER TABLE watch ADD COLUMN recorded VARCHAR(16)",
        # PERF: each sweep asks whether an account has any; without it, it reads all its watches.
        "CREATE INDEX watch_unrecorded ON watch (account_id) WHERE recorded IS NULL",
        "UPDATE installation SET schema_version = 21, oldest_program = 1",
    ):
        db.execute_sql(statement)
