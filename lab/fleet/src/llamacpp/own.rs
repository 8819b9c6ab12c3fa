//! A user's own `llama-server` with a model of the user's choice.
//!
//! It prints no address in a form that all its versions share, so it gets a free port and is ready when
//! `/health` says so. Its model may take minutes to load.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::ServerSpec;
use crate::client::Client;
use crate::{Error, Fleet, Process, Program, Result, free_port};

/// How long a server may take to load its model.
const READY_LIMIT: Duration = Duration::from_secs(600);
/// How often `/health` is read until then.
const TICK: Duration = Duration::from_millis(100);
/// The first bytes of a GGUF file.
const MAGIC: &[u8; 4] = b"GGUF";

/// The program, its model and where the model's layers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    program: PathBuf,
    model: PathBuf,
    gpu_layers: Option<u32>,
}

impl Own {
    /// A `llama-server`, a GGUF file, and the number of layers on the GPU if not the server's default.
    ///
    /// # Errors
    /// If the program can't be executed, or the file is not a GGUF file.
    pub fn new(program: PathBuf, model: PathBuf, gpu_layers: Option<u32>) -> Result<Own> {
        let refuse = |field, path: &Path, remedy: &str| {
            Err(Error::Setting { field, value: path.display().to_string(), remedy: remedy.into() })
        };
        match std::fs::metadata(&program) {
            Err(_) => {
                return refuse(
                    "--llama-server",
                    &program,
                    "there is no such file; give the path of a llama-server",
                );
            }
            Ok(file) if !file.is_file() || file.permissions().mode() & 0o111 == 0 => {
                return refuse(
                    "--llama-server",
                    &program,
                    "it can't be executed; give the path of a llama-server, or chmod +x it",
                );
            }
            Ok(_) => {}
        }
        let mut magic = [0; MAGIC.len()];
        let read = std::fs::File::open(&model).and_then(|mut file| file.read_exact(&mut magic));
        match read {
            Ok(()) if magic == *MAGIC => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return refuse("--gguf", &model, "there is no such file; give a model in GGUF");
            }
            _ => return refuse("--gguf", &model, "it is not a GGUF file; give a model in GGUF"),
        }
        // The fleet's programs run in this folder, but a path without a slash would be searched for.
        let program = std::path::absolute(&program).map_err(Error::file("finding", &program))?;
        Ok(Own { program, model, gpu_layers })
    }

    /// The path of the program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The path of the model.
    pub fn model(&self) -> &Path {
        &self.model
    }

    /// Layers on the GPU, if given.
    pub fn gpu_layers(&self) -> Option<u32> {
        self.gpu_layers
    }

    /// The arguments of a server at a port.
    fn args(&self, spec: ServerSpec, port: u16) -> Vec<String> {
        let mut args = vec!["--model".to_owned(), self.model.display().to_string()];
        let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
        add("--host", "127.0.0.1".into());
        add("--port", port.to_string());
        // The context of all slots together.
        add("--ctx-size", (spec.slots * spec.context).to_string());
        add("--parallel", spec.slots.to_string());
        if let Some(layers) = self.gpu_layers {
            add("--n-gpu-layers", layers.to_string());
        }
        args.extend(["--metrics", "--slots"].map(str::to_owned));
        args
    }

    pub(super) async fn start(
        &self,
        fleet: &Fleet,
        name: &str,
        spec: ServerSpec,
    ) -> Result<Process> {
        let port = if spec.port == 0 { free_port()? } else { spec.port };
        let program = Program::new(name, &self.program).args(self.args(spec, port));
        let mut server = fleet.start(program).await?;
        let url = format!("http://127.0.0.1:{port}");
        let client = Client::new();
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            if server.ended().is_some() {
                return Err(self.ended(server).await);
            }
            let health = client.get(&format!("{url}/health")).await;
            if health.is_ok_and(|answer| answer.status == 200) {
                server.say(url);
                return Ok(server);
            }
            if Instant::now() > deadline {
                return Err(Error::TooSlow {
                    name: name.to_owned(),
                    what: format!("answer {url}/health with 200"),
                    limit: READY_LIMIT,
                    log: server.log_tail(),
                });
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// The error of a server that ended before it was ready, with the last line of its log. Lines of
    /// its two outputs may be in another order than it wrote them.
    async fn ended(&self, mut server: Process) -> Error {
        let status = match server.wait(READY_LIMIT).await {
            Ok(status) => status,
            Err(error) => return error,
        };
        let log = server.log_tail();
        let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        Error::Setting {
            field: "--llama-server",
            value: self.program.display().to_string(),
            remedy: format!(
                "it ended with {status} before it was ready: {}; run it by hand with --model {}",
                last.trim(),
                self.model.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a program and a model.
    fn files(name: &str, script: &str) -> (PathBuf, PathBuf, PathBuf) {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("meridian-own-server-{name}-{id}"));
        std::fs::create_dir_all(&folder).unwrap();
        let (program, model) = (folder.join("llama-server"), folder.join("model.gguf"));
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(&model, b"GGUF and so on").unwrap();
        (folder, program, model)
    }

    // A program or a model that can't be used is refused before anything runs, with its flag, its path
    // and the remedy.
    #[test]
    fn unusable_files_are_refused() {
        let (folder, program, model) = files("refused", "");
        let said = |program: &Path, model: &Path| {
            Own::new(program.into(), model.into(), None).unwrap_err().to_string()
        };
        let missing = said(&folder.join("none"), &model);
        assert!(missing.contains("/none: there is no such file; give the path"), "{missing}");
        let not_executable = said(&model, &model);
        assert!(not_executable.contains("model.gguf: it can't be executed"), "{not_executable}");
        let no_model = said(&program, &folder.join("none"));
        assert!(no_model.starts_with("--gguf ") && no_model.contains("no such file"), "{no_model}");
        std::fs::write(folder.join("text"), "hello").unwrap();
        let text = said(&program, &folder.join("text"));
        assert!(text.contains("/text: it is not a GGUF file; give a model in GGUF"), "{text}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    // A server gets the slots, the context of all of them, and the layers on the GPU only if given.
    #[test]
    fn a_server_has_its_arguments() {
        let own = |gpu_layers| Own { program: "s".into(), model: "m.gguf".into(), gpu_layers };
        let spec = ServerSpec { slots: 4, context: 1000, port: 0 };
        let expected = "--model m.gguf --host 127.0.0.1 --port 81 --ctx-size 4000 --parallel 4 \
                        --n-gpu-layers 99 --metrics --slots";
        assert_eq!(own(Some(99)).args(spec, 81).join(" "), expected);
        assert!(!own(None).args(spec, 81).join(" ").contains("gpu"));
    }

    // A server that ends at once is an error with its status and its last line.
    #[tokio::test]
    async fn the_last_line_of_a_server_is_reported() {
        let script = "#!/bin/sh\necho loading >&2\necho out of memory >&2\nexit 3\n";
        let (folder, program, model) = files("ended", script);
        let own = Own::new(program, model, Some(99)).unwrap();
        let fleet = Fleet::new("/bin/sh").unwrap();
        let error = own.start(&fleet, "server", ServerSpec::default()).await.unwrap_err();
        let said = error.to_string();
        let known = said.starts_with("--llama-server /")
            && said.contains("exit status: 3 before it was ready: out of memory; run it by hand");
        assert!(known, "{said}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
