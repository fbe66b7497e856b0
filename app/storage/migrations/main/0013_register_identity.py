"""Note in the register index which data is the right one for each generation (D153)."""


def up(migrator, db):
    for table in ("register", "register_kept", "register_dropped"):
        # Programs before this schema write neither: null stands for unknown.
        db.execute_sql(f"ALTER TABLE {table} ADD COLUMN stamp CHAR(16)")
        db.execute_sql(f"ALTER TABLE {table} ADD COLUMN last_load BIGINT")
    db.execute_sql("UPDATE installation SET schema_version = 13, oldest_program = 1")
