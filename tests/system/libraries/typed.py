"""Call every operation with the typed client; print what each gave."""

import json
from typing import TYPE_CHECKING

from verifyd_typed import TypedClient

client = TypedClient(headers={"Enquiry-Reference": "CASE-1"})
created = client.create_domain("typed.example")
page = client.list_domains(limit=1, after="t.example", status="active")
record = client.check_vehicle_insurance("ab12 cde", asOf="2026-12-31", policies="all")
many = client.check_vehicles(["AB12CDE", "?"], from_="2026-12-01", to="2026-12-31", details=True)
period = many["results"][0].get("period")
compliance = client.check_compliance("SO15RNN", explain=True, details=False)
reasons = compliance.get("reasons")
checked = client.check_vehicles_compliance(["AB12CDE", "ZZ99ZZZ"], explain=True)
watch = client.put_watch("SO15RNN", leadDays=[28, 14], until="2099-12-31")
added = client.change_watches(add=[{"registration": "AB12CDE", "reference": "A/B"}])
events = client.list_events(limit=1)
usage = client.get_usage(from_="2020-01-01", to="2020-01-31")
said = [
    created["status"],
    [each["name"] for each in page["domains"]],
    client.get_domain("TYPED.example")["name"],
    len(record.get("policies", [])),
    period and period["lastDay"],
    many["results"][1].get("code"),
    reasons and reasons["roadTaxPaid"],
    [each["compliant"] for each in checked["results"]],
    watch["leadDays"],
    [each["status"] for each in added["results"]],
    [each["registration"] for each in client.list_watches(limit=1)["watches"]],
    client.get_watch("AB12CDE")["reference"],
    events["hasMore"],
    client.get_account()["plan"]["bulkMax"],
    usage["usage"],
    client.delete_watch("SO15RNN"),  # type: ignore[func-returns-value]
    client.delete_domain("typed.example"),  # type: ignore[func-returns-value]
]
print(json.dumps(said))

if TYPE_CHECKING:
    record["inshured"]  # type: ignore[typeddict-item]
    client.check_vehicles("AB12CDE")  # type: ignore[arg-type]
