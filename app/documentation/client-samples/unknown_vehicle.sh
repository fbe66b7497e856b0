curl -i -H "X-API-Key: $KEY" \
  http://127.0.0.1:8000/v1/vehicle/ZZ99ZZZ/insurance
