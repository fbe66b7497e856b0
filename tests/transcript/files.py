"""The files that the commands of the transcript load."""

import json
from pathlib import Path

_VEHICLES = "registration,make,model,year,color,insured,motExpiry,firstRegistered,taxStatus,taxDue"
_ROWS = (
    "AB12CDE,FORD,FOCUS,2012,BLUE,,2099-05-13,2012-03-01,taxed,2099-05-01",
    "LP63SED,VAUXHALL,CORSA,2013,RED,true,2020-01-01,2013-09-01,sorn,",
    "FI11NED,BMW,320D,2011,BLACK,,2099-01-01,2011-03-01,taxed,2099-01-01",
    "SO15RNN,KIA,PICANTO,2015,WHITE,false,,2015-03-01,sorn,",
    *(
        f"TE{n:02}STX,FIAT,PANDA,2016,GREEN,,2099-01-01,2016-01-01,taxed,2099-01-01"
        for n in range(40)
    ),
)
_POLICIES = (
    "registration,number,insurer,validFrom,validTo,type",
    "AB12CDE,P-1,Brackenmoor Mutual,2026-03-01,2099-02-28,comprehensive",
    "FI11NED,P-2,Larkmere General,2026-03-01,2099-02-28,third party",
    "LP63SED,P-3,Larkmere General,2019-03-01,2020-02-28,comprehensive",
)
_FINES = (
    {"registration": "FI11NED", "reference": "F-1", "issuedOn": "2026-01-02", "amount": "65.00"},
    {"registration": "AB12CDE", "reference": "F-2", "issuedOn": "2025-01-02", "amount": "0"},
)
_MAPPING = {
    "kind": "vehicles",
    "columns": {"registration": "Reg No", "make": "Manufacturer", "model": "Type"},
}


def write_files(directory: Path) -> None:
    """Write all files below a directory."""
    texts = {
        "vehicles.csv": [_VEHICLES, *_ROWS],
        "few-vehicles.csv": [_VEHICLES, *_ROWS[:2]],
        "policies.csv": _POLICIES,
        "fines.ndjson": [json.dumps(each) for each in _FINES],
        "broken.csv": [_VEHICLES, *_ROWS[:3], "?!,FORD,KA,12,RED,perhaps,13.5.2099,,,", "one,two"],
        "unknown.csv": ["Reg No;Manufacturer;Type;Keeper", "AB12CDE;FORD;FOCUS;nobody"],
        "empty.csv": [],
        "headless.csv": _ROWS[:4],
        "missing.csv": ["make,model", "FORD,KA"],
        "lost-members.csv": ["registration,make", *(f"{row[:7]},FORD" for row in _ROWS)],
        "mapping.json": [json.dumps(_MAPPING)],
        "broken-mapping.json": [json.dumps(_MAPPING | {"kind": "ships", "unknown": 1})],
        "fleet.csv": ["Plate,Driver", "ab12 cde,one", "LP63SED,two", "ZZ99ZZZ,three", ",four"],
        "drop/native/vehicles-2.csv": [_VEHICLES, *_ROWS],
        "drop/native/vehicles-2.csv.done": [],
        "drop/native/broken.csv": ["make,model", "FORD,KA"],
        "drop/native/broken.csv.done": [],
        "drop/native/waits.csv": [_VEHICLES, *_ROWS],
        "backups/.keep": [],
    }
    for name, lines in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
