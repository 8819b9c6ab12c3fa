//! The root qdisc of a device: the kernel's default, these rules, or another program's.

use serde::Deserialize;

use super::{ets, htb};

/// The root of a device, by `tc -json qdisc show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The kernel made it: such qdiscs have no handle and come back by themselves.
    Default(String),
    /// Rules of this crate, by their handle.
    Ours { handle: u16 },
    /// Another program's, as in `cake 8001:`.
    Other(String),
}

#[derive(Deserialize)]
struct Shown {
    kind: String,
    handle: String,
    #[serde(default)]
    root: bool,
}

impl Root {
    /// Reads the output of `tc -json qdisc show dev DEVICE`. A device without a qdisc has the
    /// default.
    pub(crate) fn read(json: &str) -> Result<Root, serde_json::Error> {
        let shown: Vec<Shown> = serde_json::from_str(json)?;
        let Some(Shown { kind, handle, .. }) = shown.into_iter().find(|one| one.root) else {
            return Ok(Root::Default("none".into()));
        };
        let major = u16::from_str_radix(handle.trim_end_matches(':'), 16).unwrap_or(u16::MAX);
        Ok(match (kind.as_str(), major) {
            (_, 0) => Root::Default(kind),
            ("htb", htb::HANDLE) | ("ets", ets::HANDLE) => Root::Ours { handle: major },
            _ => Root::Other(format!("{kind} {handle}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(kind: &str, handle: &str) -> Root {
        let child = r#"{"kind":"fq_codel","handle":"0:","parent":"4d44:1","options":{}}"#;
        let own = format!(r#"{{"kind":"{kind}","handle":"{handle}","root":true,"options":{{}}}}"#);
        Root::read(&format!("[{child},{own}]")).unwrap()
    }

    // The kernel's qdiscs have handle 0; ours are known by kind and handle together.
    #[test]
    fn roots_are_told_apart() {
        assert_eq!(root("mq", "0:"), Root::Default("mq".into()));
        assert_eq!(root("htb", "4d44:"), Root::Ours { handle: 0x4d44 });
        assert_eq!(root("ets", "4d45:"), Root::Ours { handle: 0x4d45 });
        for (kind, handle) in [("htb", "1:"), ("htb", "4d45:"), ("cake", "8001:"), ("x", "?")] {
            assert_eq!(root(kind, handle), Root::Other(format!("{kind} {handle}")));
        }
        assert_eq!(Root::read("[]").unwrap(), Root::Default("none".into()));
        assert!(Root::read("Cannot find device").is_err());
    }
}
