"""Add to each plan whether its accounts get suggestions: no, until it is set (D175)."""


def up(migrator, db):
    # A program of the former version creates plans without this column.
    db.execute_sql("ALTER TABLE plan ADD COLUMN suggest VARCHAR(3) NOT NULL DEFAULT 'off'")
    db.execute_sql("UPDATE installation SET schema_version = 16, oldest_program = 1")
