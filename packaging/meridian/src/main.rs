//! `meridian`: what an operator runs, with the policies that its packages have.

/// The policies of other routers, beside the product's own.
#[cfg(feature = "rivals")]
const FURTHER: meridian_cli::Policies = meridian_rivals::EVERY;
#[cfg(not(feature = "rivals"))]
const FURTHER: meridian_cli::Policies = &[];

fn main() -> std::process::ExitCode {
    meridian_cli::run(FURTHER)
}
