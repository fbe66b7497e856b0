"""Rows in the text format of Postgres' COPY, as Postgres itself writes them (D46)."""

from app.storage.postgres_dialect import copy_text
from tests.conftest import ON_POSTGRES
from tests.rows import each_row

PLAIN = (("AB12CDE", 7, None), ("AB12CDF", 0, None))
HOSTILE = ("None", "\\N", "\\", "a\\nb", "a\tb", "a\nb\r\n", "\b\f\v", "\x7f", "", "\u0160koda")


def test_nulls_are_not_texts():
    """A null has its own mark, and the text None is written as it is."""
    assert copy_text(PLAIN) == "AB12CDE\t7\t\\N\nAB12CDF\t0\t\\N\n"
    assert copy_text([("None", 7, None)]) == "None\t7\t\\N\n"


def test_no_rows_are_no_text():
    """Nothing is sent for an empty batch."""
    assert copy_text([]) == ""


@ON_POSTGRES
@each_row("text", HOSTILE)
def test_postgres_reads_and_writes_the_same(world, text):
    """Postgres reads and writes back any texts, next to plain rows and alone."""
    connection = world.engine.connection()
    for rows in ([(text, 1, None)], [*PLAIN, (text, 1, None)]):
        with world.engine.atomic():
            world.engine.execute_sql(
                "CREATE TEMPORARY TABLE t (a text, b int, c text) ON COMMIT DROP"
            )
            written = copy_text(rows)
            with connection.cursor().copy("COPY t FROM STDIN") as copy:
                copy.write(written)
            assert world.engine.execute_sql("SELECT a, b, c FROM t").fetchall() == rows
            with connection.cursor().copy("COPY t TO STDOUT") as copy:
                assert b"".join(map(bytes, copy)).decode() == written
