// Fastify, better-sqlite3 and @fastify/rate-limit, in a cluster of processes.
'use strict'

const cluster = require('node:cluster')
const crypto = require('node:crypto')
const Database = require('better-sqlite3')
const fastify = require('fastify')

const { PEERS_DATABASE, PEERS_LOG, PEERS_PORT, PEERS_PROCESSES } = process.env
const TITLES = { 400: 'Bad Request', 401: 'Unauthorized', 404: 'Not Found' }

const db = new Database(PEERS_DATABASE, { readonly: true })
const findKey = db.prepare(`
  SELECT api_key.secret_hash, api_key.expires_at, api_key.revoked_at, plan.bulk_max
  FROM api_key
  JOIN account ON account.id = api_key.account_id
  JOIN plan ON plan.name = account.plan_id
  WHERE api_key.id = ? AND account.suspended_at IS NULL`)
const findVehicle = db.prepare('SELECT * FROM vehicle WHERE registration = ?')
const findPolicy = db.prepare(`
  SELECT * FROM policy WHERE registration = @plate
  ORDER BY valid_from <= @day AND valid_to >= @day
      AND (cancelled_on IS NULL OR cancelled_on > @day) DESC,
    valid_to DESC, valid_from DESC, number DESC, insurer
  LIMIT 1`)
const findFine = db.prepare('SELECT 1 FROM fine WHERE registration = ? AND NOT settled LIMIT 1')

class Problem extends Error {
  constructor (statusCode, code, detail) {
    super(detail)
    this.statusCode = statusCode
    this.problem = code
  }
}

// The account of a key, or null if the key does not work.
function findAccount (key) {
  const found = findKey.get(key.slice(10, 18))
  if (found === undefined || found.revoked_at !== null) return null
  if (found.expires_at !== null && found.expires_at <= Date.now() / 1000) return null
  const hash = crypto.createHash('sha256').update(key.slice(19, 62)).digest('hex')
  const isRight = crypto.timingSafeEqual(Buffer.from(hash), Buffer.from(found.secret_hash))
  return isRight ? found : null
}

// The plate as it is stored, or null if it is none.
function canonical (text) {
  const plate = text.normalize('NFKC').replace(/[ -]/g, '').toUpperCase()
  return /^[\p{L}\p{Nd}]{1,12}$/u.test(plate) ? plate : null
}

function today () {
  return new Date().toISOString().slice(0, 10)
}

function iso (seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 19) + 'Z'
}

function findRecord (text, day) {
  const plate = canonical(text)
  if (plate === null) throw new Problem(400, 'invalid_registration', 'Invalid registration number')
  const vehicle = findVehicle.get(plate)
  const policy = findPolicy.get({ plate, day })
  if (vehicle === undefined && policy === undefined) {
    throw new Problem(404, 'vehicle_not_found', 'Vehicle not found')
  }
  return { plate, vehicle, policy }
}

function isInsured (vehicle, policy, day) {
  if (policy === undefined) return Boolean(vehicle.insured)
  return policy.valid_from <= day && day <= policy.valid_to &&
    (policy.cancelled_on === null || day < policy.cancelled_on)
}

function policyOf (policy) {
  if (policy === undefined) return null
  return {
    number: policy.number,
    insurer: policy.insurer || null,
    validFrom: policy.valid_from,
    validTo: policy.valid_to,
    type: policy.type
  }
}

function insurance (request) {
  const day = today()
  const { plate, vehicle, policy } = findRecord(request.params.registration, day)
  return {
    registration: plate,
    insured: isInsured(vehicle, policy, day),
    policy: policyOf(policy),
    vehicle: {
      make: vehicle?.make ?? null,
      model: vehicle?.model ?? null,
      year: vehicle?.year ?? null,
      color: vehicle?.color ?? null
    },
    lastUpdated: iso(Math.max(vehicle?.updated ?? 0, policy?.updated ?? 0))
  }
}

function compliance (request) {
  const day = today()
  const { plate, vehicle, policy } = findRecord(request.params.registration, day)
  const status = vehicle?.tax_status
  const due = vehicle?.tax_due ?? null
  const checks = {
    insuranceValid: isInsured(vehicle, policy, day),
    motValid: Boolean(vehicle?.mot_exempt) || (vehicle?.mot_expiry ?? '') >= day,
    roadTaxPaid: (status === 'taxed' || status === 'exempt') && (due === null || due >= day),
    noOutstandingFines: findFine.get(plate) === undefined
  }
  return {
    registration: plate,
    compliant: Object.values(checks).every(Boolean),
    checks,
    lastChecked: iso(Date.now() / 1000)
  }
}

function bulkInsurance (request) {
  const { registrations } = request.body
  if (registrations.length > request.account.bulk_max) {
    throw new Problem(400, 'too_many_registrations', 'Too many registrations')
  }
  const day = today()
  const results = registrations.map(text => bulkItem(text, day))
  const failed = results.filter(item => item.error !== undefined).length
  return { results, processed: results.length, successful: results.length - failed, failed }
}

function bulkItem (text, day) {
  const plate = canonical(text)
  if (plate === null) {
    const error = 'Invalid registration number'
    return { registration: text, insured: false, error, code: 'invalid_registration' }
  }
  const vehicle = findVehicle.get(plate)
  const policy = findPolicy.get({ plate, day })
  if (vehicle === undefined && policy === undefined) {
    const error = 'Vehicle not found'
    return { registration: plate, insured: false, error, code: 'vehicle_not_found' }
  }
  return { registration: plate, insured: isInsured(vehicle, policy, day), policy: policyOf(policy) }
}

// Fastify writes answers that have a schema faster.
const text = { type: 'string' }
const maybe = { type: 'string', nullable: true }
const flag = { type: 'boolean' }
const number = { type: 'integer' }
const policySchema = {
  type: 'object',
  nullable: true,
  properties: { number: text, insurer: maybe, validFrom: text, validTo: text, type: maybe }
}
const insuranceSchema = {
  type: 'object',
  properties: {
    registration: text,
    insured: flag,
    policy: policySchema,
    vehicle: {
      type: 'object',
      properties: { make: maybe, model: maybe, year: { ...number, nullable: true }, color: maybe }
    },
    lastUpdated: text
  }
}
const complianceSchema = {
  type: 'object',
  properties: {
    registration: text,
    compliant: flag,
    checks: {
      type: 'object',
      properties: {
        insuranceValid: flag, motValid: flag, roadTaxPaid: flag, noOutstandingFines: flag
      }
    },
    lastChecked: text
  }
}
const bulkSchema = {
  type: 'object',
  properties: {
    results: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          registration: text, insured: flag, policy: policySchema, error: text, code: text
        }
      }
    },
    processed: number,
    successful: number,
    failed: number
  }
}
const bulkBody = {
  type: 'object',
  required: ['registrations'],
  properties: { registrations: { type: 'array', items: text } }
}

async function serve () {
  // One line for each request, as the others write it, and not two.
  const app = fastify({ logger: PEERS_LOG === 'on', disableRequestLogging: true })
  if (PEERS_LOG === 'on') {
    app.addHook('onResponse', async (request, reply) => {
      request.log.info({ req: request, res: reply, responseTime: reply.elapsedTime }, 'request completed')
    })
  }
  app.decorateRequest('account', null)
  app.addHook('onRequest', async (request) => {
    request.account = findAccount(request.headers['x-api-key'] ?? '')
    if (request.account === null) {
      throw new Problem(401, 'unauthorized', 'The API key is missing or not valid.')
    }
  })
  await app.register(require('@fastify/rate-limit'), {
    max: 1e9,
    timeWindow: '1 second',
    keyGenerator: request => request.headers['x-api-key'] ?? request.ip
  })
  app.setErrorHandler((error, request, reply) => {
    const status = error.statusCode ?? 500
    const code = error.problem ?? 'internal_error'
    reply.code(status).type('application/problem+json').send({
      type: `/docs/errors#${code}`,
      title: TITLES[status] ?? 'Internal Server Error',
      status,
      detail: error.message,
      code,
      request_id: request.id
    })
  })
  app.get('/v1/vehicle/:registration/insurance',
    { schema: { response: { 200: insuranceSchema } } },
    async request => insurance(request))
  app.get('/v1/compliance/:registration',
    { schema: { response: { 200: complianceSchema } } },
    async request => compliance(request))
  app.post('/v1/vehicle/bulk-insurance',
    { schema: { body: bulkBody, response: { 200: bulkSchema } } },
    async request => bulkInsurance(request))
  await app.listen({ host: '127.0.0.1', port: Number(PEERS_PORT) })
}

if (cluster.isPrimary) {
  for (let n = 0; n < Number(PEERS_PROCESSES); n++) cluster.fork()
  process.on('SIGTERM', () => {
    for (const worker of Object.values(cluster.workers)) worker.process.kill()
    process.exit()
  })
} else {
  serve()
}
