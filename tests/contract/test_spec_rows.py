"""Every row of the interface's sections 2, 4, 5 and 7 has a test named after it."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import SAMPLES
from tests.rows import each_row

TESTS = Path(__file__).parents[1]
SPEC = SAMPLES.parent / "spec.md"


class Row(NamedTuple):
    """A row of the interface, and the prefix of its tests' names after `test_spec_`."""

    section: int
    table: str
    row: str
    test: str


ROWS = [
    Row(2, "Domain", "id", "2_domain_id"),
    Row(2, "Domain", "name", "2_domain_name"),
    Row(2, "Domain", "status", "2_domain_status"),
    Row(2, "Domain", "created_at", "2_domain_created_at"),
    Row(2, "Vehicle insurance record", "registration", "2_insurance_registration"),
    Row(2, "Vehicle insurance record", "insured", "2_insurance_insured"),
    Row(2, "Vehicle insurance record", "policy", "2_insurance_policy"),
    Row(2, "Vehicle insurance record", "vehicle", "2_insurance_vehicle"),
    Row(2, "Vehicle insurance record", "lastUpdated", "2_insurance_last_updated"),
    Row(2, "Policy object", "number", "2_policy_number"),
    Row(2, "Policy object", "insurer", "2_policy_insurer"),
    Row(2, "Policy object", "validFrom", "2_policy_valid_from"),
    Row(2, "Policy object", "validTo", "2_policy_valid_to"),
    Row(2, "Policy object", "type", "2_policy_type"),
    Row(2, "Vehicle object", "make", "2_vehicle_make"),
    Row(2, "Vehicle object", "model", "2_vehicle_model"),
    Row(2, "Vehicle object", "year", "2_vehicle_year"),
    Row(2, "Vehicle object", "color", "2_vehicle_color"),
    Row(2, "Bulk result item", "registration", "2_bulk_item_registration"),
    Row(2, "Bulk result item", "insured", "2_bulk_item_insured"),
    Row(2, "Bulk result item", "policy", "2_bulk_item_policy"),
    Row(2, "Bulk result item", "error", "2_bulk_item_error"),
    Row(2, "Bulk response envelope", "results", "2_bulk_results"),
    Row(2, "Bulk response envelope", "processed", "2_bulk_processed_is_the_number"),
    Row(2, "Bulk response envelope", "successful", "2_bulk_successful"),
    Row(2, "Bulk response envelope", "failed", "2_bulk_failed"),
    Row(2, "Rule", "processed equals successful plus failed", "2_bulk_processed_is_successful"),
    Row(2, "Compliance record", "registration", "2_compliance_registration"),
    Row(2, "Compliance record", "compliant", "2_compliance_compliant"),
    Row(2, "Compliance record", "checks", "2_compliance_checks"),
    Row(2, "Compliance record", "lastChecked", "2_compliance_last_checked"),
    Row(4, "Domain area", "List Domains", "4_list_domains"),
    Row(4, "Domain area", "Get Domain", "4_get_domain"),
    Row(4, "Domain area", "Create Domain", "4_create_domain"),
    Row(4, "Vehicle area", "Vehicle Insurance Verification", "4_vehicle_insurance_verification"),
    Row(4, "Vehicle area", "Bulk Vehicle Verification", "4_bulk_vehicle_verification"),
    Row(4, "Vehicle area", "Compliance Check", "4_compliance_check"),
    Row(4, "Rules", "1", "4_rule_1"),
    Row(4, "Rules", "2", "4_rule_2"),
    Row(5, "Authentication", "1", "5_1"),
    Row(5, "Authentication", "2", "5_2"),
    Row(5, "Authentication", "3", "5_3"),
    Row(5, "Authentication", "4", "5_4"),
    Row(5, "Authentication", "5", "5_5"),
    Row(5, "Authentication", "6", "5_6"),
    Row(7, "Errors", "400", "7_400"),
    Row(7, "Errors", "401", "7_401"),
    Row(7, "Errors", "404", "7_404"),
    Row(7, "Errors", "429", "7_429"),
    Row(7, "Errors", "500", "7_500"),
]


@cache
def names() -> frozenset[str]:
    """Return the names of all collected tests, as in their files."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_bytes())
        classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name[:4] == "Test"]
        for body in (tree.body, *(each.body for each in classes)):
            found |= {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return frozenset(name for name in found if name.startswith("test_"))


def named_after(row: Row) -> list[str]:
    """Return the tests of a row."""
    pattern = rf"test_spec_{row.test}(_.*)?"
    return [name for name in names() if re.fullmatch(pattern, name)]


def case(row: Row) -> object:
    """Return a row as a parameter."""
    return pytest.param(row, id=f"{row.section} {row.table}: {row.row}")


@each_row("row", list(map(case, ROWS)))
def test_every_row_has_a_test_of_its_own(row):
    """A row without a test is an unverified promise."""
    assert named_after(row) != []


def test_no_test_is_of_two_rows():
    """No test's name has the prefixes of two rows."""
    for row in ROWS:
        others = {other.test for other in ROWS} - {row.test}
        longer = {other for other in others if other.startswith(f"{row.test}_")}
        assert longer == set(), row


@pytest.mark.skipif(not SPEC.exists(), reason="the interface's text is not beside this repository")
@each_row("section", [2, 4, 5, 7])
def test_the_rows_are_those_of_the_interface(section):
    """The list above has every row of the interface's tables and every rule, in order."""
    text = SPEC.read_text(encoding="utf-8")
    (part,) = re.findall(rf"(?ms)^## {section}\. .*?(?=^## |\Z)", text)
    told = re.findall(r"(?m)^\| ([^|]+?) \|(?!-)(?! (?:Type|Method|Error type))|^(\d)\. ", part)
    wanted = [row.row for row in ROWS if row.section == section and row.table != "Rule"]
    assert [field or rule for field, rule in told] == wanted
