//! What the processes of a run need on this machine: Python with Mooncake, the node's program, the
//! gate's library, and a folder for their files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use meridian_fleet::venv;
use serde_json::Value;

use super::network::Network;
use super::node::Node;
use crate::experiment::spec::FlowTestbed;

const PINS: venv::Pins =
    venv::Pins { name: "Mooncake", key: "MOONCAKE_PIP", module: "mooncake.engine" };
/// Libraries that Mooncake loads.
const LIBRARIES: &str = "Mooncake needs libraries of the system: apt-get install libibverbs1 librdmacm1 \
                         libnuma1 libgoogle-glog0v6 libcurl4";
const GATE: &str = "MERIDIAN_FLOW_LIBRARY";

/// Paths.
pub(super) struct Place {
    python: PathBuf,
    /// The folder of the Python package.
    package: PathBuf,
    library: PathBuf,
    /// The binary that has `flow coordinator`.
    binary: PathBuf,
    out: PathBuf,
    lanes: u32,
}

impl Place {
    /// Finds or installs everything.
    ///
    /// # Errors
    /// If something is missing; the error says how to get it.
    pub(super) fn find(spec: &FlowTestbed) -> anyhow::Result<Place> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "--live: makes network namespaces, which needs root; run it with sudo"
        );
        let here = std::env::current_dir().context("this folder: cannot be read")?;
        let has_node = |dir: &&Path| dir.join("flow/python/testbed/__main__.py").is_file();
        let root = here.ancestors().find(has_node);
        let root =
            root.context("--live: runs flow/python/testbed; start it in a checkout of Meridian")?;
        let binary = std::env::current_exe().context("this program: has no path")?;
        let library = std::env::var_os(GATE)
            .map_or_else(|| binary.with_file_name("libmeridian_flow_abi.so"), PathBuf::from);
        ensure!(
            library.is_file(),
            "{}: missing; build it with the profile of this program, as in cargo build --release \
             -p meridian-flow-abi, or set {GATE}",
            library.display()
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let home = venv::home(&here, "mooncake");
        let python = runtime.block_on(venv::install(&home, PINS)).context(LIBRARIES)?;
        let loads = Command::new(&python).args(["-c", "import mooncake.engine"]).output()?;
        ensure!(
            loads.status.success(),
            "{LIBRARIES} ({})",
            String::from_utf8_lossy(&loads.stderr).lines().last().unwrap_or_default()
        );
        let out = std::env::temp_dir().join(format!("meridian-testbed-{}", std::process::id()));
        std::fs::create_dir_all(&out)
            .with_context(|| format!("{}: cannot be made", out.display()))?;
        Ok(Place {
            python,
            package: root.join("flow/python"),
            library,
            binary,
            out,
            lanes: spec.lanes,
        })
    }

    /// Starts the process of a host.
    pub(super) fn node(
        &self,
        network: &Network,
        host: &str,
        settings: &Value,
    ) -> anyhow::Result<Node> {
        let file = self.out.join(format!("{host}.json"));
        std::fs::write(&file, settings.to_string())
            .with_context(|| format!("{}: cannot be written", file.display()))?;
        let mut command = within(&network.name(host), &self.python);
        command.args(["-m", "testbed"]).arg(&file).current_dir(&self.package);
        command.env(GATE, &self.library);
        command.env("MC_TCP_LANES_PER_PEER", self.lanes.to_string());
        command.env("MC_LOG_LEVEL", "WARNING");
        Node::start(host, &mut command, self.out.join(format!("{host}.log")))
    }

    /// The binary as a program of a host.
    pub(super) fn meridian(&self, network: &Network, host: &str) -> Command {
        within(&network.name(host), &self.binary)
    }

    /// Starts a coordinator at the bridge, and its address.
    pub(super) fn coordinator(&self, network: &Network) -> anyhow::Result<(Node, String)> {
        let (namespace, address) = network.switch();
        let address = format!("{address}:7301");
        let mut command = within(&namespace, &self.binary);
        command.args(["flow", "coordinator", "--listen", &address]);
        let node = Node::start("coordinator", &mut command, self.out.join("coordinator.log"))?;
        node.line("flow coordinator on")?;
        Ok((node, address))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Only logs of processes that have ended.
        let _ = std::fs::remove_dir_all(&self.out);
    }
}

/// A program in a network namespace.
fn within(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}
