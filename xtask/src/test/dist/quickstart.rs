//! The quickstart of one region with the wheel in a new Python environment, and two real llama.cpp
//! servers at the page's addresses.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::cmd::{cmd, stdout_of};
use crate::dist::Made;
use crate::dist::programs::MERIDIAN;
use crate::house::House;
use crate::quickstart::{PAGE, Reader};
use crate::running::Running;

const SECTION: &str = "## One region";
/// The page's servers and their model.
const PORTS: [&str; 2] = ["8000", "8001"];
const MODEL: &str = "llama-3.1-8b";
/// Most commands that a new user should need, the installation included.
const MOST: usize = 5;

// From a new environment to an answered request in at most five commands. The time is printed.
pub(super) fn leads_to_an_answer(house: &House, made: &Made) -> anyhow::Result<()> {
    let folder = made.place.stage("test-quickstart")?;
    let servers = PORTS.map(|port| llamacpp(house, made, &folder, port));
    let servers = servers.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    stdout_of(cmd(&folder, "python3", &["-m", "venv", "env"]))?;

    let start = Instant::now();
    let programs = folder.join("env/bin");
    let reader = Reader { folder, programs: &programs, has_servers: true, stops: &[] };
    let install = format!("pip install --quiet --no-index {}", made.wheel.display());
    stdout_of(reader.shell(&reader.folder, &install)).with_context(|| install.clone())?;
    let count = 1 + reader.follow(house, SECTION)?;
    ensure!(count <= MOST, "{PAGE} needs {count} commands, more than {MOST}");
    println!("  {PAGE}: {count} commands, {:.1} s", start.elapsed().as_secs_f64());
    servers.into_iter().try_for_each(Running::stop)
}

/// A llama.cpp server at a port of the page. The first use of llama.cpp installs it.
fn llamacpp(house: &House, made: &Made, folder: &Path, port: &str) -> anyhow::Result<Running> {
    let home = house.root.join(".venv/llamacpp");
    if model(&home).is_none() {
        let up = ["up", "--regions", "us", "--engine", "llamacpp", "--for", "1s"];
        let meridian = made.programs.path(&MERIDIAN);
        stdout_of(cmd(&house.root, meridian, &up)).context("llama.cpp is not installed")?;
    }
    let model = model(&home).with_context(|| format!("no model in {}", home.display()))?;
    let mut serve = cmd(&house.root, home.join("venv/bin/python"), &[]);
    serve.arg("lab/fleet/llamacpp/serve.py").arg(model);
    serve.args([port, "4", "8192", "--alias", MODEL]);
    Running::start(serve, &folder.join(format!("llamacpp-{port}.log")))
        .with_context(|| format!("is port {port} in use? {PAGE} names it"))
}

fn model(home: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(home).ok()?.flatten().map(|file| file.path());
    files.into_iter().find(|path| path.extension().is_some_and(|end| end == "gguf"))
}
