"""Add to the history what each load contained, and why rows were rejected (D69, D70)."""


def up(migrator, db):
    for column in (
        "held BIGINT",
        "known TEXT",
        "accepted TEXT",
        "is_terminated BOOLEAN",
        "sizes TEXT",
        "reasons TEXT",
        "notes TEXT",
    ):
        db.execute_sql(f"ALTER TABLE register_load ADD COLUMN {column}")
    db.execute_sql("UPDATE installation SET schema_version = 3, oldest_program = 1")
