//! `meridian`: what an operator runs.

fn main() -> std::process::ExitCode {
    meridian_cli::run()
}
