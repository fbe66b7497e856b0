from verifyd import verdict
from verifyd_typed import TypedClient

client = TypedClient()
record = client.check_vehicle_insurance("AB12CDE", asOf="2026-12-31")
if record["policy"]:
    print(record["registration"], record["policy"]["number"], verdict(record, "insured"))
answer = client.check_vehicles(["AB12CDE", "ZZ99ZZZ"])
print(answer["successful"], answer["failed"])
