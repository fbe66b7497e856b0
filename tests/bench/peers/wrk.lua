-- Sends the requests of a file in turn, with a key, and prints the figures as JSON.
-- Each line of the file is a path for GET, or a body for POST to PEERS_PATH.

local requests = {}
local at = 0

function init(args)
    local path = os.getenv("PEERS_PATH")
    wrk.headers["X-API-Key"] = os.getenv("PEERS_KEY")
    wrk.headers["Content-Type"] = path and "application/json"
    for line in io.lines(args[1]) do
        if path then
            requests[#requests + 1] = wrk.format("POST", path, nil, line)
        else
            requests[#requests + 1] = wrk.format("GET", line)
        end
    end
end

function request()
    at = at % #requests + 1
    return requests[at]
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        'PEERS {"answers":%d,"micros":%d,"p50_us":%d,"p99_us":%d,"refused":%d,"failed":%d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
