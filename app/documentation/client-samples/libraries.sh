curl -O http://127.0.0.1:8000/docs/verifyd.py
curl -O http://127.0.0.1:8000/docs/verifyd.ts
