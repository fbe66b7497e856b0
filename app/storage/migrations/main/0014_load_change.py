"""Add to the history what each load changed, also in answers (D157), and held loads (D158)."""


def up(migrator, db):
    for statement in (
        "ALTER TABLE register_load ADD COLUMN change TEXT",
        "ALTER TABLE register_load ADD COLUMN broken TEXT",
        "ALTER TABLE register_load ADD COLUMN hold TEXT",
        "ALTER TABLE register_load ADD COLUMN accepts BIGINT",
        # /readyz looks for held loads.
        "CREATE INDEX register_load_hold ON register_load (id) WHERE hold IS NOT NULL",
        "UPDATE installation SET schema_version = 14, oldest_program = 1",
    ):
        db.execute_sql(statement)
