//! `meridian gateways`

use super::ask::Control;
use super::table::ListForm;

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
    List(ListForm),
    /// List when the gateways were up and down, and why, since the control plane started
    Intervals(ListForm),
}

impl Gateways {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let form = match &self.command {
            Command::List(form) => form,
            Command::Intervals(form) => {
                let read = self.control.intervals()?;
                return form.intervals(&read.gateways, read.now_ms);
            }
        };
        let row = |(name, one): (&String, &meridian_protocol::registry::Gateway)| {
            let peers = one.peer_address.clone().unwrap_or_default();
            vec![name.clone(), one.region.clone(), one.address.clone(), peers, one.version.clone()]
        };
        let gateways = self.control.snapshot()?.gateways;
        let heads = ["NAME", "REGION", "ADDRESS", "PEERS", "VERSION"];
        form.print(&gateways, &heads, || gateways.iter().map(row).collect())
    }
}
