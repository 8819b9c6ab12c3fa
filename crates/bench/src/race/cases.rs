//! The cases of the race.

use std::path::Path;

use anyhow::Context;
use meridian_workload::write_text;

/// One case: a body and a number of connections.
pub(super) struct Case {
    /// Name in the results.
    pub(super) name: &'static str,
    /// Heading in the table.
    pub(super) title: &'static str,
    /// File of the body.
    pub(super) body: &'static str,
    /// Connections, each with one request at a time.
    pub(super) connections: u32,
}

/// All cases. One connection shows a gateway's added latency, many show its CPU cost.
pub(super) const CASES: [Case; 5] = [
    Case { name: "plain_c1", title: "plain c=1", body: "plain.json", connections: 1 },
    Case { name: "plain_c32", title: "plain c=32", body: "plain.json", connections: 32 },
    Case { name: "sse_c1", title: "SSE c=1", body: "sse.json", connections: 1 },
    Case { name: "sse_c32", title: "SSE c=32", body: "sse.json", connections: 32 },
    Case { name: "64k_c32", title: "64 KB SSE c=32", body: "64k.json", connections: 32 },
];

/// Writes the bodies of all cases into `dir`.
pub(super) fn write_bodies(dir: &Path) -> anyhow::Result<()> {
    for (name, bytes, stream) in
        [("plain.json", 64, false), ("sse.json", 64, true), ("64k.json", 64 << 10, true)]
    {
        let path = dir.join(name);
        std::fs::write(&path, body(bytes, stream))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn body(bytes: u32, stream: bool) -> String {
    let mut text = String::new();
    write_text(&mut text, u64::from(bytes), bytes);
    let message = serde_json::json!({"role": "user", "content": text});
    serde_json::json!({
        "model": "mock", "messages": [message], "max_tokens": 8, "stream": stream,
    })
    .to_string()
}
