//! Builds a gateway's configuration: settings, each with its place in the imported file.
//!
//! A draft never holds a value that the gateway's own check refuses; it has a note instead. It also
//! keeps access restricted: if access control is not converted, the drafted gateway listens on
//! loopback only.

mod models;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use meridian_config::{ConfigError, Gateway, identity};

use super::key::Key;
use super::note::{Found, Note};
use super::value;
use models::DraftModels;

/// The sections of the file, in order. Settings inside a section keep the order of their discovery.
const SECTIONS: [&str; 17] = [
    "listen",
    "admin",
    "tls",
    "cors",
    "policy",
    "admission",
    "replicas",
    "discovery",
    "keys",
    "models",
    "tenants",
    "attempts",
    "timeouts",
    "limits",
    "held",
    "breaker",
    "probe",
];

#[derive(Default)]
pub(super) struct Draft {
    settings: Vec<Setting>,
    replicas: Vec<Replica>,
    sources: Vec<(String, Found)>,
    tenants: BTreeMap<String, (Vec<String>, Found)>,
    /// Aliases and fallbacks.
    pub(super) models: DraftModels,
    listen: Option<(SocketAddr, Found)>,
    /// Access control that is not converted.
    unguarded: Option<Found>,
    notes: Vec<Note>,
    /// Names of settings that need no counterpart.
    needless: BTreeSet<String>,
}

struct Setting {
    /// `attempts`, or `timeouts.connect`.
    path: &'static str,
    value: String,
    from: Found,
}

struct Replica {
    url: String,
    weight: u32,
    engine: Option<&'static str>,
    from: Found,
}

impl Draft {
    /// Notes a setting that is not converted.
    pub(super) fn note(
        &mut self,
        found: &Found,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let note = Note::new(found, why, remedy);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes a setting that Meridian does by itself or has no use for; all of them share a line.
    pub(super) fn needless(&mut self, name: &str) {
        self.needless.insert(name.to_owned());
    }

    /// Notes access control that is not converted, and keeps the gateway on loopback.
    pub(super) fn unguarded(&mut self, found: &Found, why: &str, remedy: &str) {
        self.note(found, why, remedy);
        self.unguarded.get_or_insert_with(|| found.clone());
    }

    /// Adds a setting, written as YAML. The first value of a setting counts; a different second one
    /// becomes a note, and so does a value that the gateway's check refuses.
    pub(super) fn set(&mut self, path: &'static str, value: impl Display, from: &Found) {
        let (section, rest) = path.split_once('.').unwrap_or((path, ""));
        assert!(SECTIONS.contains(&section), "a setting is in a section that is written");
        assert!(!rest.contains('.'), "a section has no sections inside");
        let value = value.to_string();
        if let Some(first) = self.settings.iter().find(|setting| setting.path == path) {
            if first.value != value {
                let why = format!("{path} is {} already, from {}", first.value, first.from);
                self.note(from, why, "choose one of the two in the file");
            }
            return;
        }
        self.settings.push(Setting { path, value, from: from.clone() });
        if let Err(problem) = self.try_section(path) {
            self.settings.pop();
            self.note(from, format!("the gateway refuses it ({problem})"), format!("set {path}"));
        }
    }

    /// Whether the gateway accepts the section of a setting. TLS needs two settings, and is checked
    /// when both are known.
    fn try_section(&self, path: &str) -> Result<(), String> {
        let section = path.split('.').next().unwrap_or(path);
        if section == "tls" {
            return Ok(());
        }
        let mut yaml = String::from("version: 1\n");
        self.section(section, &mut yaml);
        let texts = |error: ConfigError| {
            let texts = error.problems.into_iter().map(|problem| problem.text);
            texts.collect::<Vec<_>>().join(", ")
        };
        Gateway::read(&yaml).map(drop).map_err(texts)
    }

    /// Whether the draft has this setting.
    pub(super) fn has(&self, path: &str) -> bool {
        self.settings.iter().any(|setting| setting.path == path)
    }

    /// Adds a setting that is a duration.
    pub(super) fn span(&mut self, path: &'static str, time: Option<Duration>, from: &Found) {
        match time {
            Some(time) if !time.is_zero() => self.set(path, value::span(time), from),
            _ => self.note(from, "it is not a time above 0", format!("set {path}, as in 30s")),
        }
    }

    /// Adds a setting that is a number above 0.
    pub(super) fn count(&mut self, path: &'static str, n: Option<u64>, from: &Found) {
        const MOST: u64 = u32::MAX as u64;
        match n {
            Some(n @ 1..=MOST) => self.set(path, n, from),
            _ => self.note(
                from,
                format!("it is not a number from 1 to {MOST}"),
                format!("set {path}"),
            ),
        }
    }

    /// Adds the largest body. All bodies together have at least as much.
    pub(super) fn body(&mut self, bytes: Option<u64>, from: &Found) {
        const BODIES: u64 = 1 << 30;
        let Some(bytes) = bytes.filter(|bytes| *bytes > 0) else {
            return self.note(from, "it is not a size above 0", "set limits.body, as in 64MiB");
        };
        if bytes > BODIES {
            self.set("limits.bodies", value::size(bytes), from);
        }
        self.set("limits.body", value::size(bytes), from);
    }

    /// Adds the name of a file.
    pub(super) fn file(&mut self, path: &'static str, file: &str, from: &Found) {
        if std::fs::File::open(file).is_err() {
            let remedy = format!("make it readable, or change {path}");
            self.note(from, "the file cannot be read here", remedy);
        }
        self.set(path, value::quoted(file), from);
    }

    /// Adds the time that a breaker stays open, and raises the limit of that time if necessary.
    pub(super) fn breaker_open(&mut self, time: Option<Duration>, from: &Found) {
        const OPEN_MAX: Duration = Duration::from_secs(30);
        if let Some(time) = time.filter(|time| *time > OPEN_MAX && !self.has("breaker.open")) {
            self.span("breaker.open_max", Some(time), from);
        }
        self.span("breaker.open", time, from);
    }

    /// Adds the address for clients. The first one counts.
    pub(super) fn listen(&mut self, address: SocketAddr, from: &Found) {
        match &self.listen {
            None => self.listen = Some((address, from.clone())),
            Some((first, _)) if *first == address => {}
            Some((first, _)) => {
                let why = format!("a gateway has one address for clients, here {first}");
                self.note(from, why, "change `listen`, or run a second gateway");
            }
        }
    }

    /// Whether clients connect at this port.
    pub(super) fn listens_on(&self, port: u16) -> bool {
        self.listen.as_ref().is_some_and(|(address, _)| address.port() == port)
    }

    /// Adds a server of the OpenAI API, with its engine if that is known, unless the draft has it
    /// already.
    pub(super) fn replica(
        &mut self,
        url: &str,
        weight: u32,
        engine: Option<&'static str>,
        from: &Found,
    ) -> bool {
        let url = match value::address(url) {
            Ok(url) => url,
            Err((why, remedy)) => {
                // A user name may come with a password, and a word that is not a URL may be secret.
                let is_url = ["http://", "https://", "grpc://"].iter().any(|s| url.starts_with(s));
                let is_shown = is_url && !url.contains('@');
                let from = if is_shown { from.clone() } else { from.hide() };
                self.note(&from, why, remedy);
                return false;
            }
        };
        let same = |replica: &Replica| identity(&replica.url) == identity(&url);
        if !self.replicas.iter().any(same) {
            self.replicas.push(Replica { url, weight: weight.max(1), engine, from: from.clone() });
        }
        true
    }

    /// Adds a DNS name with the replicas' addresses.
    pub(super) fn dns(&mut self, name: &str, from: &Found) {
        let line = format!("dns: {}", value::quoted(name));
        if !self.sources.iter().any(|(known, _)| *known == line) {
            self.sources.push((line, from.clone()));
        }
    }

    /// Adds a tenant for a client that sends a key. If the key cannot be hashed, the tenant has no
    /// key yet, and the gateway refuses its requests until it has one.
    pub(super) fn tenant(&mut self, name: &str, key: &Key, from: &Found) {
        let fits = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let name: String = name.chars().map(fits).take(64).collect();
        let name = if name.is_empty() { "client".to_owned() } else { name };
        let hash = key.hash();
        let others = self.tenants.iter().filter(|(known, _)| **known != name);
        let taken = |hash: &String| others.clone().any(|(_, (keys, _))| keys.contains(hash));
        let (hash, why) = match hash {
            Ok(hash) if taken(&hash) => (None, Some("another tenant has this key".to_owned())),
            Ok(hash) => (Some(hash), None),
            Err(why) => (None, Some(why)),
        };
        let (keys, _) = self.tenants.entry(name.clone()).or_insert((Vec::new(), from.clone()));
        keys.extend(hash.filter(|hash| !keys.contains(hash)));
        if let Some(why) = why {
            let remedy =
                format!("add a hash from `meridian tenant-key` to the keys of tenant {name}");
            self.note(from, why, remedy);
        }
    }

    /// The configuration's text and the notes, a line each.
    pub(super) fn finish(
        mut self,
        format: &str,
        file: &str,
    ) -> anyhow::Result<(String, Vec<String>)> {
        ensure!(
            !self.replicas.is_empty() || !self.sources.is_empty(),
            "no address of a replica was found{}",
            self.reasons()
        );
        // Without any key a gateway would refuse all clients.
        if self.tenants.values().all(|(keys, _)| keys.is_empty()) {
            let none = std::mem::take(&mut self.tenants);
            let from = none.into_values().next().map(|(_, from)| from);
            self.unguarded = self.unguarded.take().or(from);
        }
        let is_open = self.unguarded.is_some() && self.tenants.is_empty();
        self.close();
        let loopback = self.listen.as_ref().is_none_or(|(at, _)| at.ip().is_loopback());
        assert!(!is_open || loopback, "without its access control a gateway is on loopback");
        self.separate_ports();
        self.complete_tls();
        assert!(self.has("tls.key") == self.has("tls.certificate"), "TLS has both files or none");
        self.weigh();
        self.advise(format);
        for (from, why, remedy) in self.models.settle() {
            self.note(&from, why, remedy);
        }
        if self.replicas.len() > 1024 {
            let from = Found::new("replicas", &self.replicas.len().to_string(), "");
            self.count("limits.replicas", Some(self.replicas.len() as u64), &from);
        }
        let file: String = file.chars().filter(|c| !c.is_control()).collect();
        let mut yaml = format!("# From {file} by `meridian import {format}`.\nversion: 1\n");
        for section in SECTIONS {
            self.section(section, &mut yaml);
        }
        Gateway::read(&yaml).context("the converted file is not a valid configuration")?;
        let mut lines: Vec<String> = self.notes.iter().map(Note::to_string).collect();
        if !self.needless.is_empty() {
            let names: Vec<&str> = self.needless.iter().map(String::as_str).collect();
            lines.push(format!("without a counterpart, nothing to do: {}", names.join(", ")));
        }
        Ok((yaml, lines))
    }

    fn reasons(&self) -> String {
        let lines: Vec<String> = self.notes.iter().map(Note::to_string).collect();
        match lines.is_empty() {
            true => "; name the file that lists the engines".to_owned(),
            false => format!("\n{}", lines.join("\n")),
        }
    }

    /// Makes a gateway that loses its access control reachable from this machine only.
    fn close(&mut self) {
        let (Some(from), true) = (self.unguarded.take(), self.tenants.is_empty()) else { return };
        let port = self.listen.as_ref().map_or(8080, |(address, _)| address.port());
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let was = self.listen.as_ref().map_or(loopback, |(address, _)| *address);
        if was.ip().is_loopback() {
            return;
        }
        let why =
            format!("access control is not converted, so listen is {loopback} instead of {was}");
        self.note(&from, why, "add tenants (`meridian tenant-key --new`), then change listen");
        self.listen = Some((loopback, Found::new("access control", "is missing", "see the notes")));
    }

    /// Moves the admin port, 8081 by default, if clients use the same port.
    fn separate_ports(&mut self) {
        let Some((listen, from)) = self.listen.clone() else { return };
        let admin = self.settings.iter().find(|setting| setting.path == "admin");
        let admin = admin.and_then(|setting| setting.value.parse::<SocketAddr>().ok());
        let port = admin.map_or(8081, |admin| admin.port());
        if port == listen.port() && port != 0 {
            let other = if port == 8081 { 8082 } else { 8081 };
            self.settings.retain(|setting| setting.path != "admin");
            self.set("admin", SocketAddr::from((Ipv4Addr::LOCALHOST, other)), &from);
        }
    }

    /// Notes weights under a policy that does not hash, because only hashing policies use them.
    fn weigh(&mut self) {
        let hashes = self.settings.iter().any(|setting| {
            let is_policy = ["policy", "policy.name"].contains(&setting.path);
            is_policy && ["consistent_hash", "chwbl"].contains(&setting.value.as_str())
        });
        let first = self.replicas.iter().find(|replica| replica.weight != 1 && !hashes);
        if let Some(from) = first.map(|replica| replica.from.clone()) {
            let why = "weights count for hashing policies, and others go by load";
            self.note(&from, why, "nothing to do, or set policy to consistent_hash");
        }
    }

    /// Says what a policy of the other program's keeps out.
    fn advise(&mut self, format: &str) {
        let own = "meridian";
        let kept = self.settings.iter().find(|one| ["policy", "policy.name"].contains(&one.path));
        if let Some((value, from)) = kept.map(|one| (one.value.clone(), one.from.clone()))
            && value != own
        {
            let why = format!("`policy: {value}` keeps the rule of {format}");
            let remedy = "remove the line for `meridian`, which also weighs cached prefixes and the predicted time to the first token";
            self.notes.push(Note::advice(&from, why, remedy));
        }
    }

    /// Removes a certificate without its key, and a key without its certificate.
    fn complete_tls(&mut self) {
        for (one, other) in [("tls.certificate", "tls.key"), ("tls.key", "tls.certificate")] {
            if self.has(other) {
                continue;
            }
            let Some(at) = self.settings.iter().position(|setting| setting.path == one) else {
                continue;
            };
            let from = self.settings.remove(at).from;
            let why = format!("there is no {other}, so clients connect without TLS");
            self.note(&from, why, "set tls.certificate and tls.key");
        }
    }
}
