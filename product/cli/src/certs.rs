//! `meridian certs`: a fleet's certificate authority, and the certificates that it issues.
//!
//! One folder has all files. `ca.crt` has the trusted authorities' certificates, `ca.crl` their
//! revocation lists, and `ca-N.crt`, `ca-N.key` and `ca-N.crl` belong to authority N. A gateway has
//! `gateways/NAME.crt` and `.key`; control planes and operators have theirs under `control` and
//! `operators`. Each needs `ca.crt` and its own two files. Existing files are replaced only with
//! `--force`; `rotate` replaces the certificates that it renews.
//!
//! Deliberately not here: copying the files to the gateways.

mod authority;
mod facts;
mod folder;
mod gateway;
mod revoked;
mod rotate;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use meridian_protocol::peer::{Identity, Party, label};

use authority::Authority;
use facts::Facts;
use folder::{Folder, Replace, Seat, days};
use gateway::Wish;

/// Issue and renew the certificates of gateways, control planes and operators
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a fleet's certificate authority in a folder
    Init(Init),
    /// Issue a certificate and key for a gateway, a control plane or an operator
    Issue(Issue),
    /// Renew certificates that expire soon, or replace the authority step by step
    Rotate(rotate::Rotate),
    /// Revoke all certificates of gateways, control planes and operators, by name
    Revoke(revoked::Revoke),
    /// Show the names and expiry dates of the certificates in a file
    Show(Show),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// Folder, created if it does not exist
    dir: PathBuf,
    /// Name of the fleet
    #[arg(long, value_name = "NAME")]
    fleet: String,
    /// Days until the authority expires
    #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36500))]
    days: u32,
    /// Replace an existing authority; the certificates that it issued are no longer trusted
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Issue {
    /// Folder of the authority
    dir: PathBuf,
    #[command(flatten)]
    whose: Whose,
    /// Region of the gateway
    #[arg(long, requires = "gateway")]
    region: Option<String>,
    /// DNS name under which clients reach it; repeat for more
    #[arg(long, value_name = "NAME")]
    dns: Vec<String>,
    /// IP address under which clients reach it; repeat for more
    #[arg(long, value_name = "ADDRESS")]
    ip: Vec<IpAddr>,
    /// Days until the certificate expires
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

/// The subject of a certificate.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Whose {
    /// Name of a gateway
    #[arg(long, value_name = "NAME", requires = "region")]
    gateway: Option<String>,
    /// Name of a control plane
    #[arg(long, value_name = "NAME")]
    control: Option<String>,
    /// Name of an operator of the fleet
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// File with certificates
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "certificates hold from one date to another")]
    let now = SystemTime::now();
    let said = match command {
        Command::Init(args) => init(args, now)?,
        Command::Issue(args) => issue(args, now)?,
        Command::Rotate(args) => rotate::rotate(args, now)?,
        Command::Revoke(args) => revoked::revoke(args, now)?,
        Command::Show(args) => show(args, now)?,
    };
    print!("{said}");
    Ok(())
}

fn init(args: &Init, now: SystemTime) -> anyhow::Result<String> {
    label("--fleet", &args.fleet)?;
    let folder = Folder::at(&args.dir);
    let authority = Authority::make(&args.fleet, 1, days(args.days), now)?;
    folder.begin(&authority, Replace::when(args.force))?;
    Ok(format!(
        "the authority of fleet {} is in {}: keep its .key files there, give ca.crt to every gateway and control plane\n",
        args.fleet,
        args.dir.display()
    ))
}

fn issue(args: &Issue, now: SystemTime) -> anyhow::Result<String> {
    let folder = Folder::at(&args.dir);
    let authority = folder.authority()?;
    let party = args.party(authority.fleet())?;
    let seat = Seat::of(&party);
    let wish = Wish { party, dns: args.dns.clone(), ips: args.ip.clone(), lasts: days(args.days) };
    let pair = wish.issue(&authority, now)?;
    let (crt, key) = folder.put(&authority, &seat, &pair, Replace::when(args.force), now)?;
    let mut said = format!("{}\n{}\n", crt.display(), key.display());
    if wish.until(&authority, now) < now + wish.lasts {
        said.push_str("note: it expires with the authority, sooner than requested; `meridian certs rotate --ca add` makes a new authority\n");
    }
    Ok(said)
}

impl Issue {
    /// The subject.
    fn party(&self, fleet: &str) -> anyhow::Result<Party> {
        if self.region.is_some() && self.whose.gateway.is_none() {
            bail!("--region: applies to gateways only; remove it, or use --gateway");
        }
        let region = self.region.as_deref().unwrap_or_default();
        Ok(match &self.whose {
            Whose { gateway: Some(name), .. } => {
                Party::Gateway(Identity::new(fleet, region, name)?)
            }
            Whose { control: Some(name), .. } => Party::control(fleet, name)?,
            Whose { operator, .. } => {
                Party::operator(fleet, operator.as_deref().unwrap_or_default())?
            }
        })
    }
}

fn show(args: &Show, now: SystemTime) -> anyhow::Result<String> {
    let mut said = String::new();
    for file in &args.files {
        let pem = meridian_files::read(file, meridian_files::MOST)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let all = Facts::all(&pem).with_context(|| file.display().to_string())?;
        let lists = lists_beside(file)?;
        for facts in all {
            said.push_str(&facts.text(now));
            if let Some(since) = revoked::since(&lists, &facts) {
                let since = humantime::format_rfc3339_seconds(since);
                said.push_str(&format!("  revoked  since {since}\n"));
            }
        }
    }
    Ok(said)
}

/// Reads the revocation lists in the folder of a certificate's file, or in the folder above it.
fn lists_beside(file: &Path) -> anyhow::Result<Vec<revoked::List>> {
    let folders = file.ancestors().skip(1).take(2);
    let lists = folders.map(|dir| dir.join("ca.crl")).find(|path| path.exists());
    let Some(path) = lists else { return Ok(Vec::new()) };
    let pem = meridian_files::read(&path, meridian_files::MOST)
        .with_context(|| format!("cannot read {}", path.display()))?;
    revoked::List::all(&pem).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests;
