//! `meridian-lab`: what measures, simulates and plans around the product.

mod bench;
mod calibrate;
mod chaos;
mod command;
mod demo;
mod engine;
mod experiment;
mod flow;
mod plan;
mod up;
mod wan;
mod what_if;
mod workload;

fn main() -> std::process::ExitCode {
    command::run()
}
