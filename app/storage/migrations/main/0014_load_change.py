"""Add to the history what each load changed, also in answers (D157)."""


def up(migrator, db):
    db.execute_sql("ALTER TABLE register_load ADD COLUMN change TEXT")
    db.execute_sql("UPDATE installation SET schema_version = 14, oldest_program = 1")
