"""Add to each plan whether it is a sandbox: none is, until one is created so (D180)."""


def up(migrator, db):
    # A program of the former version creates plans without this column.
    db.execute_sql("ALTER TABLE plan ADD COLUMN sandbox VARCHAR(3) NOT NULL DEFAULT 'off'")
    db.execute_sql("UPDATE installation SET schema_version = 18, oldest_program = 1")
