"""Add the links that open the console, and its sessions (D132)."""

from peewee import PostgresqlDatabase


def up(migrator, db):
    by_code_point = ' COLLATE "C"' if isinstance(db, PostgresqlDatabase) else ""
    for statement in (
        f'CREATE TABLE console_link ("token_hash" CHAR(64){by_code_point} NOT NULL PRIMARY KEY, '
        '"name" VARCHAR(100) NOT NULL, "role" VARCHAR(10) NOT NULL, '
        '"expires_at" BIGINT NOT NULL, "used_at" BIGINT)',
        f'CREATE TABLE console_session ("id" CHAR(8){by_code_point} NOT NULL PRIMARY KEY, '
        f'"token_hash" CHAR(64){by_code_point} NOT NULL, "name" VARCHAR(100) NOT NULL, '
        '"role" VARCHAR(10) NOT NULL, "started_at" BIGINT NOT NULL, '
        '"expires_at" BIGINT NOT NULL)',
        "CREATE UNIQUE INDEX console_session_token_hash ON console_session (token_hash)",
        "UPDATE installation SET schema_version = 9, oldest_program = 1",
    ):
        db.execute_sql(statement)
