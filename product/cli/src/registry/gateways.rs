//! `meridian gateways`

use super::ask::Control;
use super::table;

/// List the running gateways
#[derive(clap::Args)]
pub(crate) struct Gateways {
    #[command(flatten)]
    control: Control,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the gateways, with their regions and addresses
    List,
    /// List when the gateways were up and down, and why, since the control plane started
    Intervals,
}

impl Gateways {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Command::Intervals = self.command {
            let read = self.control.intervals()?;
            crate::intervals::print(&read.gateways.iter().collect::<Vec<_>>(), read.now_ms)?;
            return Ok(());
        }
        let row = |(name, one): (String, meridian_protocol::registry::Gateway)| {
            vec![name, one.region, one.address, one.peer_address.unwrap_or_default(), one.version]
        };
        let gateways = self.control.snapshot()?.gateways;
        let heads = ["NAME", "REGION", "ADDRESS", "PEERS", "VERSION"];
        table::print(&heads, gateways.into_iter().map(row).collect())?;
        Ok(())
    }
}
