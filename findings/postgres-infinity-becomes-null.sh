#!/bin/sh
# Version: pg@8.23.1 pg-types@2.2.0 postgres@3.4.9 @electric-sql/pglite@0.5.14 @electric-sql/pglite-socket@0.2.17
# Guess: a day infinity of Postgres, a usual end of a policy without an end, comes out of JavaScript
#     as the word infinity, or not at all: JSON has no such day, and the drivers have an error for
#     it.
# Behaviour: three drivers give a number Infinity or an invalid date, and JSON.stringify writes null
#     for both, without an error. The policy has lost its end.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
timeout 50 npm install --silent --no-audit --no-fund --ignore-scripts --cache npm \
    pg@8.23.1 pg-types@2.2.0 postgres@3.4.9 @electric-sql/pglite@0.5.14 @electric-sql/pglite-socket@0.2.17 || exit 77

cat >program.mjs <<'PROGRAM'
import { PGlite } from '@electric-sql/pglite'
import { PGLiteSocketServer } from '@electric-sql/pglite-socket'
import pg from 'pg'
import postgres from 'postgres'

const database = await PGlite.create()
const query = "SELECT DATE 'infinity' AS until"
console.log('PGlite  ', JSON.stringify((await database.query(query)).rows[0]))

const server = new PGLiteSocketServer({ db: database, host: '127.0.0.1', port: 0 })
let port
server.addEventListener('listening', event => { port = event.detail.port })
await server.start()
const address = { host: '127.0.0.1', port, user: 'postgres', database: 'postgres' }

const client = new pg.Client(address)
await client.connect()
console.log('pg      ', JSON.stringify((await client.query(query)).rows[0]))
await client.end()

const sql = postgres({ ...address, max: 1 })
console.log('postgres', JSON.stringify((await sql.unsafe(query))[0]))
await sql.end()
process.exit(0)
PROGRAM
saw=$(node program.mjs)
described='PGlite   {"until":null}
pg       {"until":null}
postgres {"until":null}'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
