//! `./x dist`: packages of both programs, all made from one build, and the wheel of the KV gate.
//!
//! `meridian` and `meridian-lab` are built once, against an old glibc, and every kind of package
//! contains both. The same commit gives the same bytes wherever the tool permits it: files carry the
//! time of the commit, belong to root and are packed in order. Nothing is signed or published here.

pub(crate) mod archive;
pub(crate) mod binary;
mod deb;
pub(crate) mod debs;
mod flow_wheel;
pub(crate) mod glibc;
mod image;
mod layout;
pub(crate) mod oldest;
mod pgo;
pub(crate) mod place;
pub(crate) mod programs;
mod sbom;
pub(crate) mod sums;
mod tarball;
mod wheel;

use std::path::PathBuf;

use crate::house::House;
use binary::Profile;
use place::Place;
use programs::{BOTH, Programs};

#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Only these kinds of packages; all of them by default
    #[arg(value_enum)]
    kinds: Vec<Kind>,
    /// How the programs are compiled; dev is quick, and the tests use it
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
    /// Optimise the programs for what a gateway does under load: builds them twice
    #[arg(long)]
    pgo: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Programs, man pages, completions, systemd unit and an example configuration
    Tarball,
    /// For pip
    Wheel,
    /// The KV gate for engines in Python, for pip
    FlowWheel,
    /// For Debian and Ubuntu
    Deb,
    /// An OCI image in an archive, for podman, docker, containerd and skopeo
    Image,
}

/// The files of a run. A kind that was not requested has none.
pub(crate) struct Made {
    pub(crate) place: Place,
    pub(crate) programs: Programs,
    pub(crate) tarball: PathBuf,
    pub(crate) wheel: PathBuf,
    pub(crate) flow_wheel: PathBuf,
    pub(crate) sbom: PathBuf,
    pub(crate) deb: PathBuf,
    pub(crate) image: PathBuf,
}

/// Makes the packages and prints their sizes.
pub(crate) fn run(house: &House, args: &Args) -> anyhow::Result<bool> {
    let place = make(house, args)?.place;
    println!("\npackages in {}", place.out.display());
    for (name, bytes) in sums::sizes(&place)? {
        println!("  {:6.1} MB  {name}", bytes as f64 / 1e6);
    }
    Ok(true)
}

/// Makes all kinds quickly, for the tests.
pub(crate) fn for_tests(house: &House) -> anyhow::Result<Made> {
    make(house, &Args { profile: Profile::Dev, ..Args::default() })
}

/// Makes all kinds for a release, optimised for load; a rehearsal is quick.
pub(crate) fn release(house: &House, rehearsal: bool) -> anyhow::Result<Place> {
    let args = match rehearsal {
        true => Args { profile: Profile::Dev, ..Args::default() },
        false => Args { pgo: true, ..Args::default() },
    };
    Ok(make(house, &args)?.place)
}

fn make(house: &House, args: &Args) -> anyhow::Result<Made> {
    let Args { kinds, profile, pgo } = args;
    let profile = *profile;
    let place = Place::open(house)?;
    place.clear()?;
    let wanted = |kind| kinds.is_empty() || kinds.contains(&kind);
    let rustc_args = oldest::rustc_args(house, &place)?;
    let flags = pgo.then(|| pgo::profiled(house, &place, profile, &rustc_args)).transpose()?;
    let flags = flags.as_ref();
    let programs = binary::build(house, &place, profile, &rustc_args, flags)?;
    for program in &BOTH {
        glibc::ensure_runs_on(house, &programs.path(program))?;
    }
    let mut made = Made {
        programs,
        tarball: tarball::path(&place),
        deb: deb::path(&place),
        image: image::path(&place),
        wheel: PathBuf::new(),
        flow_wheel: PathBuf::new(),
        sbom: sbom::path(&place),
        place,
    };
    let (place, programs) = (&made.place, &made.programs);
    sbom::write(house, place)?;
    if wanted(Kind::Tarball) {
        tarball::make(house, place, programs)?;
    }
    if wanted(Kind::Deb) {
        deb::make(house, place, programs)?;
    }
    if wanted(Kind::Image) {
        image::make(house, place, programs)?;
    }
    if wanted(Kind::Wheel) {
        made.wheel = wheel::make(house, place, programs, profile, &rustc_args, flags)?;
    }
    if wanted(Kind::FlowWheel) {
        made.flow_wheel = flow_wheel::make(house, place, profile, &rustc_args)?;
    }
    sums::write(&made.place)?;
    Ok(made)
}
