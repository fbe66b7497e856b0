#!/bin/sh
# Version: peewee==4.5.3 apsw==3.54.1.0
# Guess: the migrator of Peewee keeps WITHOUT ROWID, whatever it changes: Peewee has an option of
#     that name, and where SQLite cannot alter a table it makes the new one from the text of the old
#     one.
# Behaviour: a new type or a new default of a column takes WITHOUT ROWID away, without a warning. It
#     stays where SQLite alters the table itself, as for new, removed and renamed columns and for
#     NOT NULL.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    peewee==4.5.3 apsw==3.54.1.0 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
from peewee import IntegerField, Model, TextField
from playhouse.apsw_ext import APSWDatabase
from playhouse.migrate import SqliteMigrator, migrate


def change(name, *arguments):
    database = APSWDatabase(":memory:")

    class Vehicle(Model):
        plate = TextField(primary_key=True)
        year = TextField(null=True)

        class Meta:
            without_rowid = True

    database.bind([Vehicle])
    database.create_tables([Vehicle])
    migrate(getattr(SqliteMigrator(database), name)("vehicle", *arguments))
    ((schema,),) = database.execute_sql("SELECT sql FROM sqlite_master WHERE name = 'vehicle'")
    print(f"{name}: {'kept' if 'WITHOUT ROWID' in schema else 'lost'}")


change("rename_column", "year", "built")
change("add_column", "doors", IntegerField(null=True))
change("drop_column", "year")
change("add_not_null", "year")
change("alter_column_type", "year", IntegerField(null=True))
change("add_column_default", "year", "2026")
PROGRAM
)
described='rename_column: kept
add_column: kept
drop_column: kept
add_not_null: kept
alter_column_type: lost
add_column_default: lost'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
