"""Allow accounts to be suspended, and never reuse the number of a deleted account (D81)."""

from peewee import PostgresqlDatabase


def up(migrator, db):
    if isinstance(db, PostgresqlDatabase):  # A sequence of Postgres never reuses a number.
        db.execute_sql("ALTER TABLE account ADD COLUMN suspended_at BIGINT")
    else:
        _rebuild(db)
    db.execute_sql("UPDATE installation SET schema_version = 6, oldest_program = 1")


def _rebuild(db):
    """Rebuild the table with AUTOINCREMENT: without it SQLite reuses the highest number.

    The steps are those of SQLite's documentation (lang_altertable, section 7). `migrate` has turned
    foreign keys off, so that dropping the old table does not delete keys and domains.
    """
    for statement in (
        "CREATE TABLE account_next ("
        '"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "tag" CHAR(6) NOT NULL, '
        '"name" VARCHAR(100) NOT NULL, "plan_id" VARCHAR(30) NOT NULL, '
        '"created_at" INTEGER NOT NULL, "suspended_at" INTEGER, '
        'FOREIGN KEY ("plan_id") REFERENCES "plan" ("name") ON DELETE RESTRICT)',
        "INSERT INTO account_next (id, tag, name, plan_id, created_at) "
        "SELECT id, tag, name, plan_id, created_at FROM account",
        "DROP TABLE account",
        "ALTER TABLE account_next RENAME TO account",
        "CREATE UNIQUE INDEX account_tag ON account (tag)",
        "CREATE UNIQUE INDEX account_name ON account (name)",
        "CREATE INDEX account_plan_id ON account (plan_id)",
    ):
        db.execute_sql(statement)
