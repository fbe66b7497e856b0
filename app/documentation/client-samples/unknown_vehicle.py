from verifyd import Client, Problem, verdict

client = Client()
try:
    answer = client.ask("GET", "/v1/vehicle/ZZ99ZZZ/insurance")
    print(verdict(answer, "insured"))
except Problem as problem:
    if problem.code != "vehicle_not_found":
        raise
    print("no register knows this vehicle")
