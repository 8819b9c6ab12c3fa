//! The project's own commands, behind `./x`: the checks and tests that CI runs for a change.
//!
//! `check` has the rules that a compiler can't check, one file per rule, each with a test on a bad
//! input. `test` runs everything in parts and prints how long each took. `dist` makes the
//! packages of the programs. Nothing here is part of the product.

mod check;
mod cmd;
mod dist;
mod house;
mod md;
mod quickstart;
mod release;
mod running;
mod scope;
mod test;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "x", about = "Checks, tests and packages Meridian")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Format, lints, imports, documents, house rules
    Check(check::Args),
    /// The tests of the product and of what a change touches, or of everything, in parts
    Test(test::Args),
    /// Packages of meridian and meridian-lab, in target/dist
    Dist(dist::Args),
    /// The packages of a tagged version, their notes and provenance: a release but for the upload
    Release(release::Args),
    /// Write the pages that are made from the binary
    Docs,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("x: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<bool> {
    let mut house = house::House::open()?;
    match command {
        Command::Check(args) => check::run(&house, &args),
        Command::Test(args) => test::run(&mut house, &args),
        Command::Dist(args) => dist::run(&house, &args),
        Command::Release(args) => release::run(&house, &args),
        Command::Docs => check::write_pages(&house),
    }
}

/// The help of each command by name.
fn helps() -> Vec<(String, String)> {
    let mut cli = Cli::command();
    let help = |one: &mut clap::Command| (one.get_name().into(), one.render_help().to_string());
    cli.get_subcommands_mut().map(help).collect()
}
