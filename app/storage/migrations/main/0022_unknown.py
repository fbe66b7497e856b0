"""Add whether answers tell what is not known (D198). What exists keeps its rule."""


def up(migrator, db):
    for statement in (
        "ALTER TABLE installation ADD COLUMN tells_unknown BOOLEAN NOT NULL DEFAULT FALSE",
        "UPDATE installation SET schema_version = 22, oldest_program = 1",
    ):
        db.execute_sql(statement)
