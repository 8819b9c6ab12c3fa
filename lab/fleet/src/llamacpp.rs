//! Real llama.cpp servers: installed on demand, or the user's own.
//!
//! The installed server is llama.cpp's own, embedded in Python by `xllamacpp`. The model is generated here,
//! tiny and random (`llamacpp/model.py`), since the tests are about how a real server schedules,
//! caches and counts. Everything is in one directory and created once: a virtual environment with
//! pinned packages, the two tools, and the model.
//!
//! A user's own is a `llama-server` with a GGUF file, on whatever hardware it was built for (`own.rs`).
//!
//! llama.cpp counts tokens, not requests: computed prompt tokens, cached ones, and generated ones.

mod own;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use own::Own;

use crate::venv::{self, Pins};
use crate::{Error, Fleet, Process, Program, Result};

const MODEL_TOOL: &str = include_str!("../llamacpp/model.py");
const SERVE_TOOL: &str = include_str!("../llamacpp/serve.py");

/// How long a server may take to end after SIGTERM. Then it is killed.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A llama.cpp with a model to serve.
#[derive(Debug, Clone)]
pub enum LlamaCpp {
    /// The installed one.
    Installed(Installed),
    /// The user's own.
    Own(Own),
}

/// An installed llama.cpp with its tiny model.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The Python that has it.
    pub python: PathBuf,
    /// The program that serves a model: MODEL PORT SLOTS CONTEXT.
    pub serve: PathBuf,
    /// The model.
    pub model: PathBuf,
}

/// Settings of a llama.cpp server.
#[derive(Debug, Clone, Copy)]
pub struct ServerSpec {
    /// Concurrent requests.
    pub slots: u32,
    /// Context length of a slot in tokens.
    pub context: u32,
    /// The port; 0 means any.
    pub port: u16,
}

impl Default for ServerSpec {
    fn default() -> ServerSpec {
        ServerSpec { slots: 4, context: 8192, port: 0 }
    }
}

const PINS: Pins = Pins { name: "llama.cpp for Python", key: "LLAMACPP_PIP", module: "xllamacpp" };

/// The installation directory; see [`venv::home`].
pub fn home(start: &Path) -> PathBuf {
    venv::home(start, "llamacpp")
}

/// Installs the missing parts. If several processes ask at once, one installs and the others wait.
pub async fn install(home: &Path) -> Result<LlamaCpp> {
    let home = home.to_owned();
    let work = tokio::task::spawn_blocking(move || install_blocking(&home));
    work.await.expect("the installation does not panic")
}

fn install_blocking(home: &Path) -> Result<LlamaCpp> {
    let (home, _guard) = venv::locked(home)?;
    let home = &home;
    let python = venv::ensure(home, PINS)?;
    let serve = tool(home, "serve.py", SERVE_TOOL)?;
    let maker = tool(home, "model.py", MODEL_TOOL)?;
    // A changed tool makes a new model.
    let name = format!("model-{:016x}.gguf", fnv(MODEL_TOOL.as_bytes()));
    let model = home.join(name);
    if !model.is_file() {
        venv::run(
            "making a random model",
            std::process::Command::new(&python).arg(&maker).arg(&model),
            &format!("remove {} and try again", home.display()),
        )?;
    }
    Ok(LlamaCpp::Installed(Installed { python, serve, model }))
}

/// Writes a tool's file, unless it is already there with this text.
fn tool(home: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = home.join(name);
    if std::fs::read_to_string(&path).ok().as_deref() != Some(text) {
        std::fs::write(&path, text).map_err(Error::file("writing", &path))?;
    }
    Ok(path)
}

/// FNV-1a, used only to name a text.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Fleet {
    /// Starts a llama.cpp server; its address is `said(0)`.
    pub async fn llamacpp(
        &self,
        name: &str,
        server: &LlamaCpp,
        spec: ServerSpec,
    ) -> Result<Process> {
        let installed = match server {
            LlamaCpp::Installed(installed) => installed,
            LlamaCpp::Own(own) => return own.start(self, name, spec).await,
        };
        let numbers = [u32::from(spec.port), spec.slots, spec.context];
        let program = Program::new(name, &installed.python)
            .args([&installed.serve, &installed.model])
            .args(numbers.map(|n| n.to_string()))
            .args(["--until-stdin-closes"])
            .ready(&["listening on "]);
        self.start(program).await
    }
}

/// Ends a server and waits until it has exited: only then is the memory of its GPU free for the next.
///
/// # Errors
/// If it can't be killed.
pub async fn end(mut server: Process) -> Result<()> {
    server.terminate();
    match server.wait(END_LIMIT).await {
        Ok(_) => Ok(()),
        Err(_) => server.kill().await,
    }
}
