"""Add restricted keys, which programs before this schema refuse (D178)."""


def up(migrator, db):
    for column in (
        "\"only\" VARCHAR(10) NOT NULL DEFAULT ''",
        "networks TEXT NOT NULL DEFAULT ''",
        # Programs before this schema read the column `secret_hash` only.
        "restricted_hash CHAR(64)",
    ):
        db.execute_sql(f"ALTER TABLE api_key ADD COLUMN {column}")
    db.execute_sql("UPDATE installation SET schema_version = 17, oldest_program = 1")
