"""Add to each plan what its accounts must say about a look-up: nothing, until it is set."""


def up(migrator, db):
    # A program of the former version creates plans without these columns.
    db.execute_sql("ALTER TABLE plan ADD COLUMN enquiry VARCHAR(8) NOT NULL DEFAULT 'off'")
    db.execute_sql("ALTER TABLE plan ADD COLUMN enquiry_reasons TEXT NOT NULL DEFAULT ''")
    db.execute_sql("UPDATE installation SET schema_version = 11, oldest_program = 1")
