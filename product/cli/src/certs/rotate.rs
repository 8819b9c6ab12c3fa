//! Renews certificates, and replaces an authority while gateways keep accepting each other.
//!
//! An authority is replaced in three steps. After each, operators copy the files to every gateway.
//! `add` makes a second authority that is trusted but issues nothing yet; `switch` makes it the
//! issuing one and renews every certificate with it; `drop` ends the trust in the old one. At each
//! step, every gateway trusts all certificates that its peers may have at that time.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::bail;

use super::authority::Authority;
use super::facts::Facts;
use super::folder::{Folder, Replace, Seat, days};
use super::gateway::Wish;
use super::revoked;

#[derive(Debug, clap::Args)]
pub(crate) struct Rotate {
    /// Folder of the authority
    pub(super) dir: PathBuf,
    /// Renew certificates that expire within this many days
    #[arg(long, default_value_t = 30, value_name = "DAYS")]
    pub(super) within: u32,
    /// Days until renewed certificates expire [default: as long as before]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub(super) days: Option<u32>,
    /// Step of the replacement of the authority
    #[arg(long, value_enum, value_name = "STEP")]
    pub(super) ca: Option<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Step {
    /// Make a second authority and trust it; the first still issues certificates
    Add,
    /// Issue with the second authority, and renew every certificate with it
    Switch,
    /// Stop trusting the old authority
    Drop,
}

pub(super) fn rotate(args: &Rotate, now: SystemTime) -> anyhow::Result<String> {
    let folder = Folder::at(&args.dir);
    match args.ca {
        None => renew(&folder, args, now),
        Some(Step::Add) => add(&folder, args, now),
        Some(Step::Switch) => switch(&folder, args, now),
        Some(Step::Drop) => retire(&folder),
    }
}

/// Renews certificates that expire soon, that another authority issued, or that lost their key.
fn renew(folder: &Folder, args: &Rotate, now: SystemTime) -> anyhow::Result<String> {
    let authority = folder.authority()?;
    let lists = folder.lists()?;
    let mut said = String::new();
    for seat in folder.seats()? {
        let (old, fits) = folder.certificate(&seat)?;
        let soon = old.left(now).is_none_or(|left| left <= days(args.within));
        let foreign = !old.is_of(&authority.facts);
        if !(soon || foreign || !fits) {
            continue;
        }
        if revoked::since(&lists, &old).is_some() {
            said.push_str(&format!(
                "{seat} is revoked, so it is not renewed; `meridian certs issue --force` issues a new certificate\n"
            ));
            continue;
        }
        let Some(wish) = Wish::again(&old, args.days.map(days)) else {
            bail!(
                "{}: names no member of the fleet, so it can't be renewed; issue it again, or move it out of the folder",
                folder.path(&seat, "crt").display()
            );
        };
        if Seat::of(&wish.party) != seat || wish.party.fleet() != authority.fleet() {
            bail!(
                "{}: is the certificate of {}; issue {} again, or move the file out of the folder",
                folder.path(&seat, "crt").display(),
                wish.party.uri(),
                seat.name()
            );
        }
        folder.put(&authority, &seat, &wish.issue(&authority, now)?, Replace::Yes, now)?;
        let until = humantime::format_rfc3339_seconds(wish.until(&authority, now));
        said.push_str(&format!("renewed {} until {until}\n", wish.party));
    }
    if said.is_empty() {
        said.push_str("no certificate expires within that time\n");
    }
    if authority.facts.left(now).is_none_or(|left| left <= days(args.within)) {
        said.push_str("the authority itself expires; make a new one with --ca add\n");
    }
    Ok(said)
}

fn add(folder: &Folder, args: &Rotate, now: SystemTime) -> anyhow::Result<String> {
    let bundle = folder.bundle()?;
    if bundle.len() > 1 {
        bail!(
            "--ca add: {} has {} authorities already; finish their exchange with --ca switch and --ca drop",
            folder.bundle_path().display(),
            bundle.len()
        );
    }
    let old = folder.authority()?;
    let was = old.facts.until.duration_since(old.facts.from).unwrap_or(days(1));
    let last = numbers(&bundle)[0];
    let Some(number) = last.checked_add(1) else {
        bail!(
            "--ca add: authority {last} has the highest number; make a new fleet's authority with `meridian certs init`"
        );
    };
    let lasts = args.days.map_or(was, days);
    let pair = Authority::make(old.fleet(), number, lasts, now)?;
    // Existing files of this number are of an interrupted attempt, and were never trusted.
    folder.put_authority(number, &pair, Replace::Yes)?;
    folder.trust(&[number - 1, number])?;
    Ok(format!(
        "authority {number} is trusted; copy ca.crt to every gateway, then run --ca switch\n"
    ))
}

fn switch(folder: &Folder, args: &Rotate, now: SystemTime) -> anyhow::Result<String> {
    let mut numbers = numbers(&folder.bundle()?);
    if numbers.len() < 2 {
        bail!("--ca switch: there is only one authority; run --ca add first");
    }
    if numbers[0] < numbers[1] {
        numbers.swap(0, 1);
        folder.trust(&numbers)?;
    }
    // If it is interrupted, the next call renews the rest.
    let said = renew(folder, args, now)?;
    Ok(format!("{said}copy the new files and ca.crt to every gateway, then run --ca drop\n"))
}

fn retire(folder: &Folder) -> anyhow::Result<String> {
    let bundle = folder.bundle()?;
    let numbers = numbers(&bundle);
    if numbers.len() < 2 {
        bail!("--ca drop: there is only one authority, and it is in use; run --ca add first");
    }
    if numbers[0] < numbers[1] {
        bail!("--ca drop: the old authority still issues certificates; run --ca switch first");
    }
    let lists = folder.lists()?;
    for seat in folder.seats()? {
        let (facts, _) = folder.certificate(&seat)?;
        if !facts.is_of(&bundle[0]) && revoked::since(&lists, &facts).is_none() {
            bail!(
                "--ca drop: {} still has a certificate of the old authority; run --ca switch",
                seat.name()
            );
        }
    }
    folder.trust(&numbers[..1])?;
    Ok("the old authority is no longer trusted; copy ca.crt to every gateway\n".to_owned())
}

fn numbers(bundle: &[Facts]) -> Vec<u32> {
    let ours = bundle.iter().filter_map(|facts| facts.authority.as_ref());
    let numbers: Vec<u32> = ours.map(|ours| ours.number).collect();
    assert_eq!(numbers.len(), bundle.len(), "each authority of a bundle has a number");
    numbers
}
