//! Roles that form no pair, as far as the configuration alone shows it. A gateway starts with them:
//! a decode replica then serves whole requests, and a prefill replica none.

use meridian_config::Gateway as Config;
use meridian_protocol::admin::{AddReplica, EngineName};
use meridian_protocol::legs::Protocol;
use meridian_routing::Role;

/// Problems of `replicas` with a role.
pub(super) fn doubts(config: &Config) -> Vec<String> {
    // Partners may come from elsewhere.
    let is_whole = config.discovery.is_empty() && config.control.is_none();
    let mut found = Vec::new();
    for (i, replica) in config.replicas.iter().enumerate().filter(|(_, r)| !r.role.is_both()) {
        let protocol = protocol(replica);
        let (role, name) = (replica.role.name(), format!("replicas[{i}]"));
        match (protocol, &replica.bootstrap) {
            (Known::None(engine), _) => found.push(format!(
                "{name}.role: `{role}` forms no pair, as no protocol is known by which `{engine}` hands over KV; set `transfer`, or remove `role`"
            )),
            (Known::Is(protocol), Some(address)) if protocol.bootstrap_port.is_none() => {
                found.push(format!(
                    "{name}.bootstrap: `{address}` has no use, as `{}` has no bootstrap server; remove it",
                    protocol.name
                ));
            }
            _ => {}
        }
        if is_whole && !matches!(protocol, Known::None(_)) {
            found.extend(partner_problem(&name, replica, protocol, &config.replicas));
        }
    }
    found
}

/// The protocol of a replica, as far as its entry tells it.
#[derive(Clone, Copy)]
enum Known {
    Is(&'static Protocol),
    /// The engine that has none.
    None(&'static str),
    /// The engine is detected when the gateway runs.
    Later,
}

fn protocol(replica: &AddReplica) -> Known {
    let engine = match replica.engine {
        EngineName::Is(engine) => Some(engine),
        EngineName::Auto => None,
    };
    match (replica.protocol(engine), engine) {
        (Some(protocol), _) => Known::Is(protocol),
        (None, None) => Known::Later,
        (None, Some(engine)) => Known::None(engine.name),
    }
}

/// Why no replica of the other role can be its partner.
fn partner_problem(
    name: &str,
    replica: &AddReplica,
    own: Known,
    all: &[AddReplica],
) -> Option<String> {
    let other = if replica.role.0 == Role::Prefill { Role::Decode } else { Role::Prefill };
    let shares_model = |r: &&AddReplica| {
        let unknown = r.models.is_empty() || replica.models.is_empty();
        unknown || r.models.iter().any(|model| replica.models.contains(model))
    };
    let mut others = all.iter().filter(|r| r.role.0 == other).filter(shares_model).peekable();
    let (role, other) = (replica.role.name(), other.word());
    if others.peek().is_none() {
        return Some(format!(
            "{name}.role: `{role}` forms no pair without a {other} replica of its model; add one, or remove `role`"
        ));
    }
    let Known::Is(own) = own else { return None };
    let mut theirs = None;
    for protocol in others.map(protocol) {
        match protocol {
            Known::Is(protocol) if protocol == own => return None,
            Known::Later => return None,
            Known::Is(protocol) => theirs = theirs.or(Some(protocol.name)),
            Known::None(_) => {}
        }
    }
    let theirs = theirs.map_or_else(|| "none".to_owned(), |name| format!("`{name}`"));
    Some(format!(
        "{name}.transfer: `{}` is not the protocol of a {other} replica of its model, which is {theirs}; use one `transfer` for both",
        own.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(replicas: &str) -> Vec<String> {
        let yaml = format!("version: 1\nreplicas:\n{replicas}\n");
        doubts(&Config::read(&yaml).expect("is valid"))
    }

    // Pairs whose engines are known or detected later are fine, and so are replicas without roles.
    #[test]
    fn pairs_that_work() {
        for replicas in [
            "- url: http://a:1\n- url: http://b:1",
            "- {url: http://a:1, role: prefill}\n- {url: http://b:1, role: decode}",
            "- {url: http://a:1, role: prefill, engine: vllm}\n- {url: http://b:1, role: decode}",
            "- {url: http://a:1, role: prefill, transfer: mooncake, bootstrap: 'a:8998'}\n- {url: http://b:1, role: decode, transfer: mooncake}",
            "- {url: http://a:1, role: prefill}\ndiscovery: [{dns: 'vllm:8000', role: decode}]",
        ] {
            assert_eq!(found(replicas), Vec::<String>::new(), "{replicas}");
        }
    }

    // Every mistake names its field, its value and the remedy.
    #[test]
    fn pairs_that_do_not() {
        for (replicas, says) in [
            (
                "- {url: http://a:1, role: prefill}\n- url: http://b:1",
                "replicas[0].role: `prefill` forms no pair without a decode replica of its model; add one",
            ),
            (
                "- {url: http://a:1, role: decode, models: [m]}\n- {url: http://b:1, role: prefill, models: [n]}",
                "replicas[0].role: `decode` forms no pair without a prefill replica of its model",
            ),
            (
                "- {url: http://a:1, role: prefill, transfer: nixl}\n- {url: http://b:1, role: decode, transfer: mooncake}",
                "replicas[0].transfer: `nixl` is not the protocol of a decode replica of its model, which is `mooncake`; use one",
            ),
            (
                "- {url: http://a:1, role: prefill, engine: tgi}\n- {url: http://b:1, role: decode}",
                "replicas[0].role: `prefill` forms no pair, as no protocol is known by which `tgi` hands over KV; set",
            ),
            (
                "- {url: http://a:1, role: prefill, transfer: nixl, bootstrap: 'a:8998'}\n- {url: http://b:1, role: decode}",
                "replicas[0].bootstrap: `a:8998` has no use, as `nixl` has no bootstrap server; remove it",
            ),
        ] {
            let found = found(replicas).join("\n");
            assert!(found.contains(says), "{says} is missing in {found}");
        }
    }
}
