curl -H "X-API-Key: $KEY" -w '%{stderr}%{http_code}\n' \
  http://127.0.0.1:8000/v1/vehicle/ZZ99ZZZ/insurance
