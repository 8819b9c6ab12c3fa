//! `meridian flow qdisc`: traffic classes on this host, and templates for the rest of the network.

use std::io::Write as _;

use anyhow::Context as _;
use meridian_cards::queues::{
    self, Applied, Classes, Kind, Percent, Rate, Shape, Tc, Vendor, Weights,
};

const EXAMPLES: &str = "\
Examples:
  meridian flow qdisc --dev eth0                      print the commands, at 98 % of the card's rate
  meridian flow qdisc --dev eth0 --rate 24.5Gbps --apply
  meridian flow qdisc --dev eth0 --remove             give the device its default back
  meridian flow qdisc --env                           settings of NCCL, UCX and Mooncake
  meridian flow qdisc --switch sonic --classes eight";

/// Queue collectives above KV on this host, with a floor for KV
///
/// Without --apply or --remove nothing is changed: the `tc` commands, or a template or the settings
/// asked for, go to stdout. A packet's DSCP is its class; --env prints the settings with which
/// NCCL, UCX and Mooncake set it. Unmarked traffic has a share of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Qdisc {
    /// The network device
    #[arg(long, value_name = "DEVICE", required_unless_present_any = ["switch", "env"])]
    dev: Option<String>,
    /// Rate to shape to, a little below the card's [default: 98 % of the card's]
    #[arg(long)]
    rate: Option<Rate>,
    /// Share of the card that KV gets even beside greedy collectives
    #[arg(long, default_value = "10%", value_name = "SHARE")]
    floor: Percent,
    /// Share of the card that unmarked traffic (ssh, HTTP, DNS) gets even beside both
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    unmarked: Percent,
    /// Classes to distinguish
    #[arg(long, default_value = "two")]
    classes: Count,
    /// Queueing discipline
    #[arg(long, default_value = "htb")]
    kind: Discipline,
    /// Run the commands: all of them, or none (needs root)
    #[arg(long, group = "act")]
    apply: bool,
    /// With --apply, replace another program's root qdisc
    #[arg(long, requires = "apply")]
    replace: bool,
    /// Remove the rules, so that the kernel's default comes back (needs root)
    #[arg(long, group = "act")]
    remove: bool,
    /// Print a template for a switch instead
    #[arg(long, value_name = "SYSTEM", group = "act")]
    switch: Option<System>,
    /// Print commands for the card's own queues instead, for RoCE
    #[arg(long, group = "act")]
    card: bool,
    /// Print the settings of NCCL, UCX and Mooncake instead
    #[arg(long, group = "act")]
    env: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Count {
    /// Collectives above KV
    Two,
    /// The eight of the flow scheduler
    Eight,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Discipline {
    /// Shapes a little below the card's rate
    Htb,
    /// Shares by weight; Linux 5.6 and later
    Ets,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum System {
    Sonic,
    Cumulus,
    Eos,
    Nxos,
    Junos,
}

/// Runs the command.
pub(crate) fn run(args: &Qdisc) -> anyhow::Result<()> {
    let weights = Weights::new(args.classes.into(), args.floor, args.unmarked)?;
    let text = match (&args.dev, args.switch) {
        _ if args.env => queues::environment(),
        (_, Some(system)) => Vendor::from(system).template(weights),
        (Some(device), None) if args.card => queues::card(device, weights)?,
        (Some(device), None) if args.remove => remove(device)?,
        (Some(device), None) => {
            let shape = shape(args, device)?;
            if args.apply {
                apply(&shape, device, args.replace)?
            } else {
                shape.script().to_string()
            }
        }
        (None, None) => anyhow::bail!("--dev: is missing; name the network device"),
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

fn shape(args: &Qdisc, device: &str) -> anyhow::Result<Shape> {
    let kind = Kind::from(args.kind);
    let rate = match (args.rate, kind) {
        (None, Kind::Htb) => {
            let rate = queues::shaped_rate(device).with_context(|| {
                format!("--rate: the kernel knows no rate of `{device}`; give one, as in 24.5Gbps")
            })?;
            Some(rate)
        }
        (given, _) => given,
    };
    Ok(Shape::new(device, kind, args.classes.into(), rate, [args.floor, args.unmarked])?)
}

fn apply(shape: &Shape, device: &str, replace: bool) -> anyhow::Result<String> {
    Ok(match Tc::here().apply(shape, replace)? {
        Applied::New => format!("{device} has the rules now\n"),
        Applied::Again => format!("{device} has the rules again, in place of its earlier ones\n"),
        Applied::Replaced(root) => format!("{device} has the rules now, in place of {root}\n"),
    })
}

fn remove(device: &str) -> anyhow::Result<String> {
    let removed = Tc::here().remove(device)?;
    let said = if removed { "has the kernel's default again" } else { "had no rules to remove" };
    Ok(format!("{device} {said}\n"))
}

impl From<Count> for Classes {
    fn from(count: Count) -> Classes {
        match count {
            Count::Two => Classes::Two,
            Count::Eight => Classes::Eight,
        }
    }
}

impl From<Discipline> for Kind {
    fn from(kind: Discipline) -> Kind {
        match kind {
            Discipline::Htb => Kind::Htb,
            Discipline::Ets => Kind::Ets,
        }
    }
}

impl From<System> for Vendor {
    fn from(system: System) -> Vendor {
        match system {
            System::Sonic => Vendor::Sonic,
            System::Cumulus => Vendor::Cumulus,
            System::Eos => Vendor::Eos,
            System::Nxos => Vendor::Nxos,
            System::Junos => Vendor::Junos,
        }
    }
}
