//! Starts the systems of the race and checks their answers.

mod python;
mod server;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::cases::BODIES;
use super::http::Server;
use super::process::Process;
use super::replicas::{CERTIFICATE, Replicas};
use super::systems::{Program, Spec, Tls};

/// Timeout for a system's first answer.
const START: Duration = Duration::from_secs(60);

/// A system that is ready.
pub(super) struct System {
    pub(super) name: &'static str,
    pub(super) version: String,
    pub(super) server: Server,
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
        for body in &BODIES {
            let file = body.file;
            let answer = self.server.post(std::fs::read(dir.join(file))?);
            let answer = answer.with_context(|| format!("{} does not answer {file}", self.name))?;
            let text = String::from_utf8_lossy(&answer.body);
            let got = text.matches("\"content\":\"").count();
            let done = !body.stream || text.contains("data: [DONE]");
            let tokens = if body.stream { body.tokens } else { 1 };
            let ok = answer.status == 200 && got == tokens && done;
            let (status, headers) = (answer.status, &answer.headers);
            let tail = &text[text.floor_char_boundary(text.len().saturating_sub(200))..];
            ensure!(
                ok,
                "{} answers {file} with {got} of {tokens} tokens: {status} {headers:?} ... {tail}",
                self.name
            );
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
    /// The program that those run in, with its arguments; empty for none.
    pub(super) wrapper: &'a [String],
}

/// Starts a system in front of `replicas`, and waits for its first answer.
pub(super) fn start(
    spec: Spec,
    binaries: Binaries<'_>,
    replicas: &Replicas,
    dir: &Path,
) -> anyhow::Result<System> {
    let around = &Around { spec, replicas, dir, binaries };
    let name = spec.name;
    let started = match spec.program {
        Program::Direct => {
            let server = around.server(around.replica());
            return Ok(System { name, version: "-".to_owned(), server, process: None });
        }
        Program::Nginx => server::nginx(around),
        Program::Haproxy => server::haproxy(around),
        Program::Envoy => python::envoy(around),
        Program::SglangRouter | Program::Smg | Program::VllmRouter => python::router(around),
        Program::Before => {
            let binary = binaries.before.context("no earlier binary: name one with --before")?;
            server::gateway(binary, around)
        }
        Program::Recorded | Program::Meridian | Program::Pools(_) => {
            server::gateway(binaries.meridian, around)
        }
    };
    let (version, address, mut process) =
        started.with_context(|| format!("{name} cannot take part"))?;
    let server = around.server(&address);
    let body = std::fs::read(dir.join("plain.json"))?;
    let answers =
        |_: &str| server.post(body.clone()).ok().filter(|answer| answer.status == 200).map(drop);
    process.wait(START, answers).with_context(|| format!("{name} did not answer"))?;
    Ok(System { name, version, server, process: Some(process) })
}

/// A version, an address and a process.
type Started = (String, String, Process);

/// What a system needs to start.
struct Around<'a> {
    spec: Spec,
    replicas: &'a Replicas,
    dir: &'a Path,
    binaries: Binaries<'a>,
}

impl Around<'_> {
    /// A program of this machine, with the variables of such, and in its wrapper.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self.binaries.wrapper {
            [] => Command::new(program),
            [wrapper, arguments @ ..] => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(program);
                command
            }
        };
        command.envs(self.binaries.environment.iter().copied());
        command
    }

    /// The replica that the system asks.
    fn replica(&self) -> &str {
        match self.spec.tls {
            Tls::None => self.replicas.answers(),
            Tls::Replica | Tls::Both => self.replicas.secured(),
        }
    }

    /// The system as its clients see it.
    fn server(&self, address: &str) -> Server {
        let certificate = (self.spec.tls == Tls::Both).then(|| self.dir.join(CERTIFICATE));
        Server { address: address.to_owned(), certificate }
    }

    /// `template` with its `@NAMES@` replaced, those of `parts` first.
    fn fill(&self, template: &str, parts: &[(&str, &str)]) -> String {
        let path = |name: &str| self.dir.join(name).display().to_string();
        let (host, port) = self.replica().split_once(':').unwrap_or_default();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
        let (certificate, key) = (path(CERTIFICATE), path("replica.key"));
        let common = [
            ("@TO@", self.replica()),
            ("@TO_HOST@", host),
            ("@TO_PORT@", port),
            ("@REPLICA@", self.replicas.answers()),
            ("@PREFILL@", self.replicas.prefill()),
            ("@CERTIFICATE@", &certificate),
            ("@KEY@", &key),
            ("@PEM@", &path("replica.pem")),
            ("@THREADS@", &threads),
            ("@DIR@", &path(self.spec.name)),
        ];
        let all = parts.iter().chain(&common);
        all.fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Writes a file of the system into its folder.
    fn write(&self, file: &str, text: &str) -> anyhow::Result<std::path::PathBuf> {
        let folder = self.dir.join(self.spec.name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(file);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn log(&self) -> std::path::PathBuf {
        self.dir.join(format!("{}.log", self.spec.name))
    }
}
