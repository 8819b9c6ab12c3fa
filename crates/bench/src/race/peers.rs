//! The systems in the race: their sources and how they start.
//!
//! Each Python package gets a separate environment: sglang-router installs its own script named
//! `smg`, and in a shared environment one peer would be raced twice under two names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use meridian_lab::free_port;

use super::http::{listening, post};
use super::process::Process;
use super::replicas::{CERTIFICATE, Replicas};
use crate::mock;

const NGINX: &str = include_str!("../../peers/nginx.conf");
/// Added to the upstream of an nginx that reaches replicas over https.
const NGINX_HTTPS: &str = include_str!("../../peers/nginx-https.conf");
const MERIDIAN: &str = include_str!("../../peers/meridian.yaml");
/// Added to the file of a Meridian that reaches replicas over https.
const HTTPS: &str = include_str!("../../peers/meridian-https.yaml");
/// Added to the file of a Meridian that records all requests.
const RECORDED: &str = include_str!("../../peers/meridian-recorded.yaml");
const SGLANG_ROUTER: &str = include_str!("../../peers/sglang-router.sh");
const SMG: &str = include_str!("../../peers/smg.sh");
const VLLM_ROUTER: &str = include_str!("../../peers/vllm-router.sh");
const MERIDIAN_POOLS: &str = include_str!("../../peers/meridian-pools.yaml");
const SMG_POOLS: &str = include_str!("../../peers/smg-pools.sh");
const VLLM_ROUTER_POOLS: &str = include_str!("../../peers/vllm-router-pools.sh");

/// All systems, in the order of the table. `before` is an earlier build of Meridian, which runs if
/// its binary is given; `recorded` is the build under test with access log, journal and traces. Those
/// with `-https` reach a replica with https, and their clients reach them over http like all others.
const NAMES: [&str; 10] = [
    "direct",
    "nginx",
    "sglang-router",
    "smg",
    "vllm-router",
    "before",
    "recorded",
    "meridian",
    "nginx-https",
    "meridian-https",
];

/// Whether a system reaches its replica over https.
pub(super) fn has_https(name: &str) -> bool {
    name.ends_with("-https")
}

/// The systems that route to a prefill and a decode replica. smg speaks SGLang's protocol over HTTP,
/// vllm-router vLLM's; Meridian takes part once with each.
const POOLS: [&str; 5] = ["direct", "smg", "vllm-router", "meridian-sglang", "meridian-nixl"];

/// Timeout for a system's first answer.
const START: Duration = Duration::from_secs(60);

/// A system that is ready.
pub(super) struct System {
    pub(super) name: &'static str,
    pub(super) version: String,
    /// host:port
    pub(super) address: String,
    /// `None` for the mock itself.
    process: Option<Process>,
}

impl System {
    /// CPU time of the system's own processes.
    pub(super) fn cpu(&self) -> Duration {
        self.process.as_ref().map_or(Duration::ZERO, Process::cpu)
    }

    /// How often their threads waited and were woken.
    pub(super) fn wake_ups(&self) -> u64 {
        self.process.as_ref().map_or(0, Process::wake_ups)
    }

    /// Their processes.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.process.as_ref().map_or(Vec::new(), Process::tree)
    }

    /// Their current and peak memory.
    pub(super) fn memory(&self) -> Option<(u64, u64)> {
        self.process.as_ref().map(Process::memory)
    }

    /// Fails if the system has exited.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        match self.process.as_mut().and_then(Process::ended) {
            Some(how) => bail!("{} exited during the race: {how}", self.name),
            None => Ok(()),
        }
    }

    /// Refuses a system that does not return complete answers, or leaves a leg out: its speed would
    /// mean nothing.
    pub(super) fn check(&self, replicas: &Replicas, dir: &Path) -> anyhow::Result<()> {
        let before = replicas.counts()?;
        self.check_answers(dir)?;
        let after = replicas.counts()?;
        let answers = after.1 - before.1;
        let prefills = after.0.zip(before.0).map(|(after, before)| after - before);
        let split = prefills.is_none_or(|prefills| prefills == answers);
        ensure!(
            split || self.process.is_none(),
            "{} asked for {prefills:?} prefills and {answers} answers: it does not split each",
            self.name
        );
        Ok(())
    }

    fn check_answers(&self, dir: &Path) -> anyhow::Result<()> {
        for (body, tokens) in [("plain.json", 1), ("sse.json", mock::TOKENS), ("64k.json", 8)] {
            let answer = post(&self.address, &std::fs::read(dir.join(body))?)
                .with_context(|| format!("{} does not answer {body}", self.name))?;
            let got = answer.matches("\"content\":\"").count();
            let done = body == "plain.json" || answer.contains("data: [DONE]");
            let ok = answer.starts_with("HTTP/1.1 200") && got == tokens && done;
            ensure!(ok, "{} answers {body} wrongly: {answer}", self.name);
        }
        Ok(())
    }
}

/// The binaries of Meridian in the race.
#[derive(Clone, Copy)]
pub(super) struct Binaries<'a> {
    /// The build under test.
    pub(super) meridian: &'a Path,
    /// An earlier build to compare with.
    pub(super) before: Option<&'a Path>,
    /// Variables of the systems that are programs of this machine, not Python packages.
    pub(super) environment: &'a [(&'static str, &'a Path)],
}

/// The systems named in `only`, or all that can run.
pub(super) fn names(
    only: &[String],
    pools: bool,
    before: bool,
) -> anyhow::Result<Vec<&'static str>> {
    let names: &[&'static str] = if pools { &POOLS } else { &NAMES };
    if let Some(unknown) = only.iter().find(|n| !names.contains(&n.as_str())) {
        bail!("system {unknown:?} is unknown: use some of {}", names.join(", "));
    }
    let asked = only.iter().any(|name| name == "before");
    ensure!(before || !asked, "system \"before\" needs a binary: name one with --before");
    let wanted = |name: &&str| match *name {
        "before" => before,
        name => only.is_empty() || only.iter().any(|n| n == name),
    };
    Ok(names.iter().copied().filter(wanted).collect())
}

/// Starts the system `name` in front of `replicas`, and waits for its first answer.
pub(super) fn start(
    name: &'static str,
    binaries: Binaries<'_>,
    replicas: &Replicas,
    dir: &Path,
) -> anyhow::Result<System> {
    let pools = !replicas.prefill().is_empty();
    let around = &Around { replicas, dir, environment: binaries.environment };
    let started = match name {
        "direct" => {
            let (version, address) = ("-".to_owned(), replicas.answers().to_owned());
            return Ok(System { name, version, address, process: None });
        }
        "nginx" => nginx(name, NGINX, replicas.answers(), around),
        "nginx-https" => {
            let config = NGINX.replace(
                "proxy_pass http://replicas;",
                &format!("proxy_pass https://replicas;\n{NGINX_HTTPS}"),
            );
            nginx(name, &config, replicas.secured(), around)
        }
        "meridian-https" => {
            let config = MERIDIAN.replace("http://@REPLICA@", "https://@SECURED@");
            gateway(name, binaries.meridian, &format!("{config}{HTTPS}"), around)
        }
        "sglang-router" => python("sglang-router", "0.3.2", SGLANG_ROUTER, replicas, dir),
        "smg" => python("smg", "1.13.0", if pools { SMG_POOLS } else { SMG }, replicas, dir),
        "vllm-router" => {
            let script = if pools { VLLM_ROUTER_POOLS } else { VLLM_ROUTER };
            python("vllm-router", "0.1.17", script, replicas, dir)
        }
        "before" => {
            let binary = binaries.before.context("no earlier binary: name one with --before")?;
            gateway(name, binary, MERIDIAN, around)
        }
        "recorded" => {
            let config =
                format!("{MERIDIAN}{}", RECORDED.replace("@DIR@", &dir.display().to_string()));
            gateway(name, binaries.meridian, &config, around)
        }
        _ => match name.strip_prefix("meridian-") {
            Some(transfer) => {
                let config = MERIDIAN_POOLS.replace("@TRANSFER@", transfer);
                gateway(name, binaries.meridian, &config, around)
            }
            None => gateway(name, binaries.meridian, MERIDIAN, around),
        },
    };
    let (version, address, mut process) =
        started.with_context(|| format!("{name} cannot take part"))?;
    let body = std::fs::read(dir.join("plain.json"))?;
    let answers =
        |_: &str| post(&address, &body).ok().filter(|a| a.starts_with("HTTP/1.1 200")).map(drop);
    process.wait(START, answers).with_context(|| format!("{name} did not answer"))?;
    Ok(System { name, version, address, process: Some(process) })
}

type Started = (String, String, Process);

/// What surrounds a program of this machine.
struct Around<'a> {
    replicas: &'a Replicas,
    dir: &'a Path,
    environment: &'a [(&'static str, &'a Path)],
}

fn nginx(name: &str, config: &str, replica: &str, around: &Around<'_>) -> anyhow::Result<Started> {
    let dir = around.dir;
    let program = ["/usr/sbin/nginx", "nginx"].into_iter().find(|p| version(p, "-v").is_ok());
    let program = program.context("nginx is missing: on Debian, `apt-get install nginx-light`")?;
    let port = free_port()?;
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder)?;
    let config = config
        .replace("@CERTIFICATE@", &dir.join(CERTIFICATE).display().to_string())
        .replace("@DIR@", &folder.display().to_string())
        .replace("@PORT@", &port.to_string())
        .replace("@REPLICA@", replica);
    let path = dir.join(format!("{name}.conf"));
    std::fs::write(&path, config)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(path).arg("-e").arg(folder.join("nginx.error.log"));
    command.envs(around.environment.iter().copied());
    let process = Process::start(command, dir.join(format!("{name}.log")))?;
    Ok((version(program, "-v")?, format!("127.0.0.1:{port}"), process))
}

fn gateway(
    name: &str,
    meridian: &Path,
    config: &str,
    around: &Around<'_>,
) -> anyhow::Result<Started> {
    let Around { replicas, dir, environment } = around;
    let path = dir.join(format!("{name}.yaml"));
    let config = config
        .replace("@REPLICA@", replicas.answers())
        .replace("@PREFILL@", replicas.prefill())
        .replace("@SECURED@", replicas.secured())
        .replace("@CERTIFICATE@", &dir.join(CERTIFICATE).display().to_string());
    std::fs::write(&path, config)?;
    let mut command = Command::new(meridian);
    command.arg("gateway").arg("-c").arg(path).envs(environment.iter().copied());
    let mut process = Process::start(command, dir.join(format!("{name}.log")))?;
    let address = process.wait(START, listening)?;
    let program = meridian.display().to_string();
    Ok((version(&program, "--version")?, address, process))
}

/// A router from the Python package index, in a separate environment, at its pinned version.
fn python(
    name: &str,
    pinned: &str,
    script: &str,
    replicas: &Replicas,
    dir: &Path,
) -> anyhow::Result<Started> {
    let env = PathBuf::from(".venv/race").join(name);
    let program = env.join("bin").join(name).display().to_string();
    if installed(name, &env).ok().as_deref() != Some(pinned) {
        eprintln!("installing {name} {pinned} into {}", env.display());
        let env_text = env.display().to_string();
        must("python3", &["-m", "venv", &env_text])?;
        let pip = env.join("bin/pip").display().to_string();
        must(&pip, &["install", "--quiet", &format!("{name}=={pinned}")])?;
    }
    let version = installed(name, &env)?;
    ensure!(version == pinned, "{program} is {version}, not {pinned}: remove {env:?}");
    let (port, metrics) = (free_port()?, free_port()?);
    let path = dir.join(format!("{name}.sh"));
    std::fs::write(&path, script)?;
    let mut command = Command::new("sh");
    command
        .arg(path)
        .env("BIN", program)
        .env("PORT", port.to_string())
        .env("METRICS_PORT", metrics.to_string())
        .env("REPLICA", replicas.answers())
        .env("PREFILL", replicas.prefill());
    let process = Process::start(command, dir.join(format!("{name}.log")))?;
    Ok((format!("{name} {version}"), format!("127.0.0.1:{port}"), process))
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

/// The first line of a program's version output, from stdout or stderr.
fn version(program: &str, flag: &str) -> anyhow::Result<String> {
    let out = Command::new(program).arg(flag).output();
    let out = out.with_context(|| format!("cannot start {program}"))?;
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    ensure!(out.status.success(), "{program} {flag} failed: {text}");
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
