"""How old the data of an answer is, and what makes it doubtful, on the look-up page."""

from zoneinfo import ZoneInfo

import pytest

from app.console.rendering import ROOT
from app.registers.history import RegisterLoad
from app.settings.roles import Role
from app.storage.registers import Register
from app.storage.versions import set_tells_unknown
from tests.api.console import signed_in
from tests.conftest import ON_SQLITE
from tests.unit.held import held_load

LOOK_UP = f"{ROOT}/look-up"
ZONE = ZoneInfo("Pacific/Auckland")
# In Auckland these are 2 and 26 November.
LOADED = {
    "rdw": 1_793_534_400,
    "dvla": 1_795_608_000,
    "fleet": 1_795_608_000,
    "fines": 1_795_608_000,
}
OLD, NEW = "2 November 2026", "26 November 2026"
ALL_NEW = f"dvla: vehicles of {NEW}; fines: fines of {NEW}; fleet: policies of {NEW}"
pytestmark = ON_SQLITE


@pytest.fixture
def world(world):
    """Four registers, each with a kind and the time of its last load."""
    mot, tax = {"motExpiry": "2099-05-01"}, {"taxStatus": "taxed"}
    vehicles: list[dict[str, object]] = [
        {"registration": "FLAG1", "insured": True},
        {"registration": "POL1"},
        {"registration": "OPEN1", "lastUpdated": "2026-01-01"},
        {"registration": "NO1", "insured": False, "lastUpdated": "2026-01-01"},
    ]
    world.load([each | mot for each in vehicles], register="rdw")
    world.load([{"registration": each["registration"]} | tax for each in vehicles], register="dvla")
    policy = {"number": "P-1", "validFrom": "2020-01-01", "validTo": "2099-06-30"}
    ended = {"number": "P-2", "validFrom": "2025-02-01", "validTo": "2026-01-31"}
    world.load(
        [
            {"registration": "POL1", **policy},
            *({"registration": each, **ended} for each in ("OPEN1", "NO1")),
        ],
        register="fleet",
    )
    fine = {"reference": "F-1", "amount": "1", "currency": "EUR"}
    world.load([{"registration": "POL1", **fine}], register="fines")
    for register, time in LOADED.items():
        loads = RegisterLoad.update(finished_at=time).where(RegisterLoad.register == register)
        loads.execute(world.engine)
        entry = Register.update(loaded_at=time).where(Register.name == register)
        entry.execute(world.engine)
    return world


def browser(world, **settings):
    settings.setdefault("stale_after", {})
    application = world.client(None, console=True, timezone=ZONE, **settings).application
    return signed_in(world, application, Role.CLERK if "audit" in settings else Role.VIEWER)


def ask(browser, plates, **fields):
    page = browser.post(LOOK_UP, {"plates": plates, **fields})
    assert page.status_int == 200
    return page


def ages(page):
    return [each.text for each in page.html.select(".verdicts small")]


def receipt(page):
    return {each.dt.text: each.dd.text for each in page.html.select_one(".receipt").select("div")}


def test_every_answer_says_which_data_decided(world):
    """By the kind that decided, the oldest of each, in the operator's zone; also on the receipt."""
    compliance = f"vehicles of {OLD}, policies and fines of {NEW}"
    for plate, insurance, every in (
        ("FLAG1", f"vehicles of {OLD}", f"vehicles of {OLD}, fines of {NEW}"),
        ("POL1", f"policies of {NEW}", compliance),
    ):
        page = ask(browser(world), plate)
        assert ages(page) == [insurance, every]
        assert receipt(page)["Data:"] == every


def test_a_period_has_the_data_of_the_day_that_decided(world):
    """Its first failing day, not its first day, on which other data decided."""
    set_tells_unknown(world.engine, True)
    page = ask(browser(world), "NO1", **{"from": "2026-01-30", "to": "2026-02-02"})
    assert page.html.select_one(".verdicts .bad")
    assert ages(page) == [f"vehicles of {OLD}", f"vehicles of {OLD}, fines of {NEW}"]


def test_what_is_not_known_names_all_data(world):
    """Also on the receipt, if compliance is known to fail for another reason."""
    set_tells_unknown(world.engine, True)
    data = f"{ALL_NEW}; rdw: vehicles of {OLD}"
    page = ask(browser(world), "OPEN1")
    assert ages(page) == [data, data]
    assert receipt(page)["Data:"] == data
    world.load([{"registration": "OPEN1", "motExpiry": "2020-01-01"}], register="rdw")
    page = ask(browser(world), "OPEN1")
    assert [each["class"][0] for each in page.html.select(".verdicts p")] == ["unknown", "bad"]
    assert receipt(page)["Data:"] == ages(page)[0]


@pytest.mark.parametrize("plates", ["ZZ9", "ZZ9," + "POL1," * 11])
def test_where_nothing_decided_all_data_is_named(world, plates):
    """Of a plate that was not found, and of a list."""
    data = f"{ALL_NEW}; rdw: vehicles of {OLD}"
    page = ask(browser(world), plates)
    assert data in page.html.select_one(".verdicts, .soft.screen").text
    assert receipt(page)["Data:"] == data


def test_a_plate_that_is_none_has_no_age(world):
    """Nothing was looked up for it."""
    page = ask(browser(world), "!!")
    assert not page.html.select(".verdicts small")
    assert "Data:" not in receipt(page)


@pytest.mark.parametrize("plates", ["POL1", "POL1,FLAG1", "POL1," * 11])
def test_a_stale_register_is_named(world, plates):
    """Once on the page and on each receipt, by the limit of the operator."""
    sentence = f"The register rdw is stale: it was last loaded on {OLD}."
    fresh = ask(browser(world, stale_after={"rdw": 10**9}), plates)
    assert "stale" not in fresh.text
    page = ask(browser(world, stale_after={"rdw": 3600}), plates)
    assert [each.text for each in page.html.select(".notice.warn")] == [sentence]
    assert receipt(page)["Note:"] == sentence


def test_a_held_load_is_named_without_its_reason(world):
    """Clerks see that newer data waits, and no more of the load."""
    file = held_load(world)
    page = ask(browser(world, audit=True, audit_dir=world.directory / "audit"), "POL1")
    sentence = "A load of the register fleet is held: newer data waits for a decision."
    assert [each.text for each in page.html.select(".notice.warn")] == [sentence]
    assert receipt(page)["Note:"] == sentence
    assert "shrink" not in page.text
    assert str(file.parent) not in page.text
    file.unlink()
    page = ask(browser(world, audit=True, audit_dir=world.directory / "audit"), "POL1")
    assert "is held" not in page.text
