//! The settings that a configuration leaves out.

use std::net::{Ipv4Addr, SocketAddr};

use meridian_routing::{BreakerConfig, ProbeConfig};

use super::check::LEAST_HEADERS;
use super::{Breaker, Keys, Limits, Probe, Resume, Size, Span, Timeouts};

pub(super) fn region() -> String {
    "local".to_owned()
}
pub(super) fn listen() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 8080).into()
}
pub(super) fn admin() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 8081).into()
}
pub(super) fn attempts() -> u32 {
    3
}
pub(super) fn kv_lease() -> Span {
    Span::secs(30)
}
pub(super) fn ms_per_token() -> f64 {
    0.1
}
pub(super) fn explain_keep() -> usize {
    1024
}

/// Names of a session. OpenCode sends its sub-agents' own in `x-session-id` and `x-session-affinity`, and the session that
/// started them in `x-parent-session-id`. Codex's thread is one of its session's agents.
const SESSION_HEADERS: [&str; 8] = [
    "x-parent-session-id",
    "x-session-id",
    "x-hash-key",
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "thread-id",
    "x-session-affinity",
];

impl Default for Keys {
    fn default() -> Self {
        Keys {
            headers: SESSION_HEADERS.map(str::to_owned).to_vec(),
            tenant_header: "x-tenant-id".to_owned(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Span::secs(1),
            first_byte: Span::secs(600),
            idle: Span::secs(120),
            down: Span::secs(3),
            client: Span::secs(30),
            drain: Span::secs(30),
            probe: Span::secs(1),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let limits = Limits {
            body: Size::mib(32),
            headers: Size::kib(64),
            connections: 8192,
            requests: 8192,
            bodies: Size::mib(1024),
            replicas: 1024,
        };
        assert!(limits.body <= limits.bodies, "by default one body fits into all together");
        assert!(limits.headers.bytes() >= LEAST_HEADERS, "the default is within its limit");
        limits
    }
}

impl Default for Resume {
    fn default() -> Self {
        Resume { text: Size::kib(256) }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        let b = BreakerConfig::default();
        assert!(b.open <= b.open_max && b.failures > 0, "the default is a breaker that closes");
        Breaker {
            failures: b.failures,
            share: b.share,
            window: Span(b.window),
            open: Span(b.open),
            open_max: Span(b.open_max),
        }
    }
}

impl Default for Probe {
    fn default() -> Self {
        let p = ProbeConfig::default();
        assert!(p.down_after > 0 && !p.stale.is_zero(), "by default probes count");
        Probe {
            busy: Span(p.busy),
            idle: Span(p.idle),
            down_after: p.down_after,
            stale: Span(p.stale),
        }
    }
}
