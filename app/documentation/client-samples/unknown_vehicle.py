from verifyd import Client, Problem

client = Client()
try:
    print(client.ask("GET", "/v1/vehicle/ZZ99ZZZ/insurance"))
except Problem as problem:
    if problem.code != "vehicle_not_found":
        raise
    print("no register knows this vehicle")
