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
}

impl Gateways {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let Command::List = self.command;
        let row = |(name, one): (String, meridian_wire::registry::Gateway)| {
            vec![name, one.region, one.address, one.peer_address.unwrap_or_default(), one.version]
        };
        let gateways = self.control.snapshot()?.gateways;
        let heads = ["NAME", "REGION", "ADDRESS", "PEERS", "VERSION"];
        table::print(&heads, gateways.into_iter().map(row).collect());
        Ok(())
    }
}
