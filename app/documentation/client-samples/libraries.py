from verifyd import COMPLIANCE, Client, verdict

client = Client()
plates = ["AB12CDE", "SO15RNN", "ZZ99ZZZ"]
for item in client.check_all(plates):
    print(item["registration"], verdict(item, "insured"))
for item in client.check_all(plates, COMPLIANCE, explain=True):
    print(item["registration"], verdict(item, "compliant"))
for page in client.pages(limit=1):
    print([domain["name"] for domain in page])
