-- Posts one body again and again, and ends with one line that a program can read:
-- requests, seconds, errors by kind, and quantiles of the whole answer in microseconds.
-- The request is built once, before the clock starts; no Lua runs a request.
function init(args)
    local file = assert(io.open(args[1], "rb"))
    wrk.body = file:read("*a")
    file:close()
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
end

function done(summary, latency, requests)
    local e = summary.errors
    io.write(string.format("result %d %.6f %d %d %d %d %d %.1f %.1f\n",
        summary.requests, summary.duration / 1e6, e.connect, e.read, e.write, e.status, e.timeout,
        latency:percentile(50), latency:percentile(99)))
end
