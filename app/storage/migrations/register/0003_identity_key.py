"""Give the identity of a register a key, as logical replication of Postgres needs it (D153)."""

from peewee import PostgresqlDatabase


def up(migrator, db):
    # A publication for all tables refuses deletions from a table without one. There is one row. The
    # key is a number, because the order of texts can change with the server's libraries.
    if isinstance(db, PostgresqlDatabase):
        db.execute_sql(f'ALTER TABLE "{migrator.schema}"."identity" ADD PRIMARY KEY (generation)')
