//! The flags of a command line with their values.

use super::super::note::Found;
use super::words::unset;

/// The given flags in order; a repeated one has all its values.
pub(super) struct Given {
    pub(super) flags: Vec<(String, Vec<String>)>,
    /// Whether the program is vllm-router.
    pub(super) is_vllm: bool,
    /// Variables without a value.
    pub(super) unset: Vec<String>,
}

/// Flags with any number of values. Any other flag has one, and words after it are ignored.
const LISTS: [&str; 10] = [
    "--worker-urls",
    "--cors-allowed-origins",
    "--routing-key-headers",
    "--prefill",
    "--encode",
    "--selector",
    "--control-plane-api-keys",
    "--ca-cert-paths",
    "--mesh-peer-urls",
    "--jwt-role-mapping",
];

impl Given {
    pub(super) fn of(words: &[String], is_vllm: bool) -> Given {
        let mut given = Given { flags: Vec::new(), is_vllm, unset: Vec::new() };
        let mut at: Option<usize> = None;
        for word in words {
            if let Some(flag) = word.strip_prefix("--") {
                let (name, value) = match flag.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (flag, None),
                };
                at = Some(given.flag(name));
                if let Some(value) = value {
                    given.value(at.take(), value);
                }
            } else {
                let is_list = at.is_some_and(|at| LISTS.contains(&given.flags[at].0.as_str()));
                given.value(if is_list { at } else { at.take() }, word);
            }
        }
        given
    }

    /// The index of a flag. sglang's own launcher puts `router-` before the router's flags.
    fn flag(&mut self, name: &str) -> usize {
        let name = format!("--{}", name.strip_prefix("router-").unwrap_or(name));
        let known = self.flags.iter().position(|(known, _)| *known == name);
        known.unwrap_or_else(|| {
            self.flags.push((name, Vec::new()));
            self.flags.len() - 1
        })
    }

    fn value(&mut self, at: Option<usize>, word: &str) {
        let Some(at) = at else { return };
        assert!(at < self.flags.len(), "a value follows a flag");
        match unset(word) {
            Some(name) if !self.unset.iter().any(|known| known == name) => {
                self.unset.push(name.to_owned());
            }
            Some(_) => {}
            None => self.flags[at].1.push(word.to_owned()),
        }
    }

    /// The value of a flag: the last one counts.
    pub(super) fn last(&self, flag: &str) -> Option<&str> {
        let values = self.flags.iter().find(|(name, _)| name == flag).map(|(_, values)| values);
        values.and_then(|values| values.last()).map(String::as_str)
    }

    /// The value that is shown: the first of a list.
    pub(super) fn shown(&self, flag: &str) -> &str {
        let list = self.flags.iter().find(|(name, _)| name == flag && LISTS.contains(&flag));
        let first = list.and_then(|(_, values)| values.first()).map(String::as_str);
        first.or(self.last(flag)).unwrap_or_default()
    }

    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|(name, _)| name == flag)
    }

    pub(super) fn found(&self, flag: &str) -> Found {
        Found::new(flag, self.shown(flag), "")
    }
}
