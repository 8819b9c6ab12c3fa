//! Access to a gateway's admin port.

use serde::{Deserialize, Serialize};

/// Most names of an admin port, and the longest.
const MOST_HOSTS: usize = 64;
const MOST_NAME: usize = 253;

/// Under which names the admin port is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminAccess {
    /// Names under which it is asked, besides IP addresses and localhost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

impl AdminAccess {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == AdminAccess::default()
    }

    pub(super) fn check(&self, check: &mut impl FnMut(bool, String)) {
        check_hosts("admin_access.hosts", &self.hosts, check);
    }
}

/// Checks names under which a port is asked.
pub(super) fn check_hosts(at: &str, hosts: &[String], check: &mut impl FnMut(bool, String)) {
    check(
        hosts.len() <= MOST_HOSTS,
        format!("{at}: {} names; use at most {MOST_HOSTS}", hosts.len()),
    );
    for (i, host) in hosts.iter().enumerate() {
        let authority = host.parse::<http::uri::Authority>();
        let fits = host.len() <= MOST_NAME
            && authority.is_ok_and(|a| !a.host().is_empty() && !host.contains(['@', '*']));
        let shown: String = host.chars().take(MOST_NAME).collect();
        check(
            fits,
            format!("{at}[{i}]: `{shown}` is no name; write a host name, as meridian.example.org"),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Control, Gateway};

    // Names of the admin port are host names, in both files; another text is told with its place.
    #[test]
    fn hosts_are_names() {
        let gateway = |hosts: &str| {
            let yaml = format!("version: 1\nadmin_access: {{hosts: {hosts}}}\n");
            Gateway::read(&yaml).map_err(|error| error.to_string())
        };
        let good = gateway("[gw.example.org, 'gw:8081']").expect("are names");
        assert_eq!(Gateway::read(&good.print().expect("prints")).expect("reads back"), good);
        for bad in ["", "http://x", "*.example.org", "a b"] {
            let error = gateway(&format!("['{bad}']")).expect_err(bad);
            assert!(
                error.starts_with(&format!("admin_access.hosts[0]: `{bad}` is no name")),
                "{error}"
            );
            let yaml = format!("version: 1\nstore: a\nadmin_hosts: ['{bad}']\n");
            let error = Control::read(&yaml).expect_err(bad).to_string();
            assert!(error.starts_with("admin_hosts[0]: "), "{error}");
        }
    }
}
