curl -O http://127.0.0.1:8000/docs/verifyd_typed.py
curl -O http://127.0.0.1:8000/docs/verifyd_typed.ts
