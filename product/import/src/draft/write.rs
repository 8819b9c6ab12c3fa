//! Writes a draft as YAML, with a comment at each value that names where it came from.

use std::net::IpAddr;

use super::super::value::{self, heading, line};
use super::{Draft, Replica, Setting};

impl Draft {
    pub(super) fn section(&self, section: &str, yaml: &mut String) {
        match section {
            "listen" => {
                if let Some((address, from)) = &self.listen {
                    let value = match address.ip() {
                        IpAddr::V4(_) => address.to_string(),
                        IpAddr::V6(_) => value::quoted(&address.to_string()),
                    };
                    line(yaml, &format!("listen: {value}"), Some(from));
                }
            }
            "replicas" => self.replicas(yaml),
            "discovery" => {
                heading(yaml, "discovery:", self.sources.is_empty());
                for (source, from) in &self.sources {
                    line(yaml, &format!("  - {source}"), Some(from));
                }
            }
            "tenants" => {
                heading(yaml, "tenants:", self.tenants.is_empty());
                for (name, (keys, from)) in &self.tenants {
                    line(yaml, &format!("  - name: {}", value::quoted(name)), Some(from));
                    if !keys.is_empty() {
                        let keys = value::list(keys.iter().map(String::as_str));
                        line(yaml, &format!("    keys: {keys}"), None);
                    }
                }
            }
            "models" => self.models.write(yaml),
            name => self.plain(name, yaml),
        }
    }

    fn plain(&self, section: &str, yaml: &mut String) {
        let mut inside = false;
        for setting in &self.settings {
            let Setting { path, value, from } = setting;
            match path.split_once('.') {
                None if *path == section => line(yaml, &format!("{path}: {value}"), Some(from)),
                Some((first, rest)) if first == section => {
                    heading(yaml, &format!("{section}:"), inside);
                    inside = true;
                    line(yaml, &format!("  {rest}: {value}"), Some(from));
                }
                _ => {}
            }
        }
    }

    fn replicas(&self, yaml: &mut String) {
        heading(yaml, "replicas:", self.replicas.is_empty());
        for Replica { url, weight, engine, from } in &self.replicas {
            line(yaml, &format!("  - url: {}", value::quoted(url)), Some(from));
            if let Some(engine) = engine {
                line(yaml, &format!("    engine: {engine}"), None);
            }
            if *weight != 1 {
                line(yaml, &format!("    weight: {weight}"), None);
            }
        }
    }
}
