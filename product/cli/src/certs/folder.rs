//! The folder of a fleet's authority: its files, and how they are written.
//!
//! `ca.crt` holds the trusted authorities, the issuing one first, and `ca.crl` their revocation
//! lists. `issued` lists the certificates that have not expired. Only its owner can read a file. It
//! is written under a temporary name and then renamed, so a reader never sees a part of it.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use rcgen::{KeyPair, PublicKeyData};

use meridian_protocol::peer::Party;

use super::authority::{Authority, Pair};
use super::facts::Facts;
use super::revoked::{self, Issued, List};

/// Whether an existing file may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replace {
    Never,
    Yes,
}

impl Replace {
    pub(super) fn when(force: bool) -> Replace {
        if force { Replace::Yes } else { Replace::Never }
    }
}

/// A duration of `n` days.
pub(super) fn days(n: u32) -> Duration {
    Duration::from_secs(u64::from(n) * 86_400)
}

pub(super) struct Folder {
    dir: PathBuf,
}

/// The files of one member of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    dir: &'static str,
    name: String,
}

/// Subfolders with certificates: of gateways, control planes and operators.
const SEATS: [&str; 3] = ["gateways", "control", "operators"];

impl Seat {
    pub(super) fn of(party: &Party) -> Seat {
        let dir = match party {
            Party::Gateway(_) => SEATS[0],
            Party::Control { .. } => SEATS[1],
            Party::Operator { .. } => SEATS[2],
        };
        Seat { dir, name: party.name().to_owned() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Parses its text form, `gateways/us-1`.
    pub(super) fn read(text: &str) -> Option<Seat> {
        let (dir, name) = text.split_once('/')?;
        let dir = SEATS.into_iter().find(|known| *known == dir)?;
        Some(Seat { dir, name: name.to_owned() })
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.dir, self.name)
    }
}

impl Folder {
    pub(super) fn at(dir: &Path) -> Folder {
        Folder { dir: dir.to_owned() }
    }

    pub(super) fn bundle_path(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    fn authority_path(&self, number: u32, kind: &str) -> PathBuf {
        self.dir.join(format!("ca-{number}.{kind}"))
    }

    pub(super) fn path(&self, seat: &Seat, kind: &str) -> PathBuf {
        self.dir.join(seat.dir).join(format!("{}.{kind}", seat.name))
    }

    /// Makes the folder with its first authority.
    pub(super) fn begin(&self, authority: &Pair, replace: Replace) -> anyhow::Result<()> {
        may_write(&self.bundle_path(), replace)?;
        self.put_authority(1, authority, replace)?;
        // The list of an earlier authority's certificates, if there was one.
        let _ = fs::remove_file(self.dir.join("issued"));
        self.trust(&[1])
    }

    /// Writes an authority's two files; it is trusted once the bundle has it. An older revocation
    /// list with its number was signed with another key, so it is removed.
    pub(super) fn put_authority(
        &self,
        number: u32,
        pair: &Pair,
        replace: Replace,
    ) -> anyhow::Result<()> {
        make_dir(&self.dir)?;
        put(
            &self.authority_path(number, "crt"),
            &self.authority_path(number, "key"),
            pair,
            replace,
        )?;
        let list = self.authority_path(number, "crl");
        match fs::remove_file(&list) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", list.display()))
            }
            _ => Ok(()),
        }
    }

    /// Rewrites the bundle from these authorities, the issuing one first.
    pub(super) fn trust(&self, numbers: &[u32]) -> anyhow::Result<()> {
        assert!(!numbers.is_empty(), "a fleet trusts an authority at every step");
        // A list of an authority that is not trusted yet is ignored, so the lists go first.
        self.publish(numbers)?;
        let mut bundle = String::new();
        for number in numbers {
            bundle.push_str(&text(&self.authority_path(*number, "crt"))?);
        }
        write(&self.bundle_path(), &bundle)
    }

    /// Where the revocation lists of the trusted authorities are.
    pub(super) fn lists_path(&self) -> PathBuf {
        self.dir.join("ca.crl")
    }

    /// Writes `ca.crl` from the lists of these authorities, with an empty one where there is none.
    pub(super) fn publish(&self, numbers: &[u32]) -> anyhow::Result<()> {
        let mut all = String::new();
        for number in numbers {
            let path = self.authority_path(*number, "crl");
            if !path.exists() {
                write(&path, &revoked::empty(&self.numbered(*number)?)?)?;
            }
            all.push_str(&text(&path)?);
        }
        write(&self.lists_path(), &all)
    }

    pub(super) fn put_list(&self, number: u32, list: &str) -> anyhow::Result<()> {
        write(&self.authority_path(number, "crl"), list)
    }

    /// An authority's revocation list; an empty one where there is none.
    pub(super) fn list(&self, number: u32) -> anyhow::Result<List> {
        let path = self.authority_path(number, "crl");
        if !path.exists() {
            return Ok(List::default());
        }
        let lists = List::all(text(&path)?.as_bytes()).with_context(|| path.display().to_string());
        Ok(lists?.into_iter().next().unwrap_or_default())
    }

    /// All revocation lists of the trusted authorities.
    pub(super) fn lists(&self) -> anyhow::Result<Vec<List>> {
        let path = self.lists_path();
        if !path.exists() {
            return Ok(Vec::new());
        }
        List::all(text(&path)?.as_bytes()).with_context(|| path.display().to_string())
    }

    /// The authority of this number.
    pub(super) fn numbered(&self, number: u32) -> anyhow::Result<Authority> {
        let crt = self.authority_path(number, "crt");
        let facts = Facts::all(text(&crt)?.as_bytes()).with_context(|| crt.display().to_string());
        let key = self.authority_path(number, "key");
        Authority::load(facts?.swap_remove(0), &text(&key)?)
            .with_context(|| key.display().to_string())
    }

    /// Certificates that have not expired: the recorded ones and those in the folder, which may be
    /// older than the record.
    pub(super) fn issued(&self, now: SystemTime) -> anyhow::Result<Vec<Issued>> {
        let record = fs::read_to_string(self.dir.join("issued")).unwrap_or_default();
        let mut all: Vec<Issued> = record.lines().filter_map(Issued::read).collect();
        let bundle = self.bundle()?;
        for seat in self.seats()? {
            let Ok((facts, _)) = self.certificate(&seat) else { continue };
            let authority = bundle.iter().find(|authority| facts.is_of(authority));
            let Some(ours) = authority.and_then(|facts| facts.authority.as_ref()) else { continue };
            let (serial, until) = (facts.serial.clone(), facts.until);
            all.push(Issued { seat, authority: ours.number, serial, until });
        }
        all.retain(|one| one.until > now);
        all.sort_unstable();
        all.dedup_by(|a, b| (a.authority, &a.serial) == (b.authority, &b.serial));
        Ok(all)
    }

    /// Adds a certificate to the record.
    fn record(
        &self,
        authority: &Authority,
        seat: &Seat,
        pair: &Pair,
        now: SystemTime,
    ) -> anyhow::Result<()> {
        let facts = Facts::all(pair.crt.as_bytes())?.swap_remove(0);
        let mut all = self.issued(now)?;
        let ours = authority.facts.authority.as_ref();
        assert!(ours.is_some(), "the authority that issues has a number");
        let number = ours.map_or(0, |ours| ours.number);
        let (seat, serial, until) = (seat.clone(), facts.serial, facts.until);
        all.push(Issued { seat, authority: number, serial, until });
        let lines: String = all.iter().map(Issued::line).collect();
        write(&self.dir.join("issued"), &lines)
    }

    /// The trusted authorities, the issuing one first.
    pub(super) fn bundle(&self) -> anyhow::Result<Vec<Facts>> {
        let path = self.bundle_path();
        let pem = meridian_files::read(&path, meridian_files::MOST).with_context(|| {
            format!(
                "{}: the folder has no authority; make one with `meridian certs init`",
                path.display()
            )
        })?;
        let all = Facts::all(&pem).with_context(|| path.display().to_string())?;
        match all.iter().find(|facts| facts.authority.is_none()) {
            Some(other) => bail!(
                "{}: `{}` was not made by `meridian certs`; remove it from the file",
                path.display(),
                other.subject
            ),
            None => Ok(all),
        }
    }

    /// The authority that issues.
    pub(super) fn authority(&self) -> anyhow::Result<Authority> {
        let first = self.bundle()?.swap_remove(0);
        let number = first.authority.as_ref().map_or(0, |authority| authority.number);
        let path = self.authority_path(number, "key");
        let key = text(&path).with_context(|| format!("`{}` can't issue", first.subject))?;
        Authority::load(first, &key).with_context(|| path.display().to_string())
    }

    /// Writes a certificate and its key, and records it; returns the paths of both files.
    pub(super) fn put(
        &self,
        authority: &Authority,
        seat: &Seat,
        pair: &Pair,
        replace: Replace,
        now: SystemTime,
    ) -> anyhow::Result<(PathBuf, PathBuf)> {
        let (crt, key) = (self.path(seat, "crt"), self.path(seat, "key"));
        make_dir(&self.dir.join(seat.dir))?;
        may_write(&crt, replace)?;
        // Recorded first: a certificate can be revoked even if its file was never written.
        self.record(authority, seat, pair, now)?;
        put(&crt, &key, pair, replace)?;
        Ok((crt, key))
    }

    /// A member's certificate, and whether the key next to it is its own.
    pub(super) fn certificate(&self, seat: &Seat) -> anyhow::Result<(Facts, bool)> {
        let path = self.path(seat, "crt");
        let facts = Facts::all(text(&path)?.as_bytes());
        let facts = facts.with_context(|| path.display().to_string())?.swap_remove(0);
        let key = text(&self.path(seat, "key")).ok();
        let key = key.and_then(|key| KeyPair::from_pem(&key).ok());
        let fits = key.is_some_and(|key| key.subject_public_key_info() == facts.key);
        Ok((facts, fits))
    }

    /// All members with a certificate here, in order.
    pub(super) fn seats(&self) -> anyhow::Result<Vec<Seat>> {
        let mut seats = Vec::new();
        for dir in SEATS {
            let path = self.dir.join(dir);
            let Ok(entries) = fs::read_dir(&path) else { continue };
            for entry in entries {
                let path = entry.with_context(|| format!("cannot read {}", path.display()))?.path();
                let stem = path.file_stem().and_then(|s| s.to_str());
                if let (Some(stem), true) = (stem, path.extension().is_some_and(|e| e == "crt")) {
                    seats.push(Seat { dir, name: stem.to_owned() });
                }
            }
        }
        seats.sort_unstable();
        Ok(seats)
    }
}

fn make_dir(path: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make {}", path.display()))
}

fn may_write(path: &Path, replace: Replace) -> anyhow::Result<()> {
    if replace == Replace::Never && path.exists() {
        bail!("{} exists already; use --force to replace it", path.display());
    }
    Ok(())
}

/// Writes a certificate and its key. A crash between the two leaves a key without its certificate;
/// `rotate` repairs that, except for authorities.
fn put(crt: &Path, key: &Path, pair: &Pair, replace: Replace) -> anyhow::Result<()> {
    may_write(crt, replace)?;
    may_write(key, replace)?;
    write(key, &pair.key)?;
    write(crt, &pair.crt)
}

fn text(path: &Path) -> anyhow::Result<String> {
    meridian_files::read_text(path, meridian_files::MOST)
        .with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file as a whole, readable by its owner only.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let put = || -> std::io::Result<()> {
        // A file that a crash left there may have other permissions.
        let _ = fs::remove_file(&beside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    put().with_context(|| format!("cannot write {}", path.display()))
}
