//! Installs each package that `./x dist` makes, and uses it.
//!
//! The packages contain programs of the dev profile, because a release build would take most of
//! CI's time; they are put together by the same code. Nothing is installed into this machine: wheels
//! go into a new environment, all others into folders that serve as the root of a file system.

mod alone;
mod deb;
mod flow_wheel;
mod image;
mod installed;
mod oldest;
mod quickstart;
mod root;
mod tarball;
mod unit;
mod wheel;

use std::time::Instant;

use anyhow::ensure;

use super::tally::Tally;
use crate::dist::{self, Made};
use crate::house::House;

type Case = (&'static str, fn(&House, &Made) -> anyhow::Result<()>);

const CASES: &[Case] = &[
    ("tarball", tarball::is_unpacked_and_serves),
    ("wheel", wheel::is_installed_and_serves),
    ("flow wheel", flow_wheel::gives_permits),
    ("deb", deb::is_installed_serves_and_is_removed),
    ("unit", unit::is_valid_and_confined),
    ("image", image::is_unpacked_and_serves),
    ("without meridian-lab", alone::says_what_to_install),
    ("oldest glibc", oldest::serves_with_debian_11),
    ("quickstart", quickstart::leads_to_an_answer),
    ("checksums", tarball::checksums_hold),
];

pub(super) fn run(house: &House, tally: &mut Tally) -> anyhow::Result<()> {
    let start = Instant::now();
    let made = dist::for_tests(house)?;
    println!("made the packages in {:.1} minutes", start.elapsed().as_secs_f64() / 60.0);
    for (name, case) in CASES {
        let start = Instant::now();
        let error = case(house, &made).err();
        let verdict = if error.is_some() { "FAILED" } else { "ok" };
        println!("test dist: {name} ... {verdict} ({:.1} s)", start.elapsed().as_secs_f64());
        *tally += Tally { passed: error.is_none().into(), failed: error.is_some().into() };
        if let Some(error) = error {
            println!("{error:#}");
        }
    }
    ensure!(tally.failed == 0, "a package does not work, see above");
    Ok(())
}
