#!/bin/sh
# Version: vehicle==3.0.0 mashumaro==3.23
# Guess: a client of the Dutch RDW reads each vehicle that the agency publishes. A word that it does
#     not know costs one member, which is then missing like all that the agency leaves out.
# Behaviour: one word outside its lists, and the whole vehicle cannot be read. The lists lack
#     hearses, limousines, cars for wheelchairs, semi-trailers and motorcycles with a side-car,
#     among others.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    vehicle==3.0.0 mashumaro==3.23 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
from mashumaro.exceptions import InvalidFieldValue
from vehicle import Vehicle

for sort, body in (
    ("Personenauto", "hatchback"),
    ("Personenauto", "lijkwagen"),
    ("Personenauto", "limousine"),
    ("Personenauto", "voor rolstoelen toegankelijk voertuig"),
    ("Oplegger", "Niet geregistreerd"),
    ("Motorfiets met zijspan", "Niet geregistreerd"),
):
    row = {"kenteken": "11ZKZ3", "merk": "SKODA", "handelsbenaming": "CITIGO"}
    try:
        vehicle = Vehicle.from_dict(row | {"voertuigsoort": sort, "inrichting": body})
    except InvalidFieldValue as error:
        print(f"{sort}, {body}: no {error.field_name}, so no vehicle")
    else:
        print(f"{sort}, {body}: {vehicle.license_plate}")
PROGRAM
)
described='Personenauto, hatchback: 11ZKZ3
Personenauto, lijkwagen: no interior, so no vehicle
Personenauto, limousine: no interior, so no vehicle
Personenauto, voor rolstoelen toegankelijk voertuig: no interior, so no vehicle
Oplegger, Niet geregistreerd: no vehicle_type, so no vehicle
Motorfiets met zijspan, Niet geregistreerd: no vehicle_type, so no vehicle'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
