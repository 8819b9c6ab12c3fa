//! `meridian policy`

use std::collections::BTreeMap;

use meridian_protocol::policy::{Policy, Scalar};

use super::ask::Control;
use super::table::ListForm;
use super::{forced, pair};

/// Show and change the policies of a fleet's regions
#[derive(clap::Args)]
pub(crate) struct Policies {
    #[command(flatten)]
    control: Control,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the policy and parameters of each region
    Show(ListForm),
    /// Change the policy and parameters of a region
    Set(Set),
    /// Remove the policy of a region; its gateways use their own files
    Unset {
        /// Region
        region: String,
    },
}

#[derive(clap::Args)]
struct Set {
    /// Region
    region: String,
    /// Allow a region that is not known yet
    #[arg(long)]
    force: bool,
    /// Name of the policy; `meridian policies` lists them
    policy: String,
    /// Parameter of the policy; repeat for more. The others keep their defaults
    #[arg(value_name = "KNOB=VALUE", value_parser = pair)]
    knobs: Vec<(String, String)>,
}

impl Policies {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match &self.command {
            Command::Show(form) => self.show(form),
            Command::Set(Set { region, force, policy, knobs }) => {
                let params = knobs.iter().map(|(name, value)| (name.clone(), scalar(value)));
                let policy = Policy { name: policy.clone(), params: params.collect() };
                let path = format!("/admin/regions/{region}/policy");
                self.control.put(&forced(path, *force), &policy)?;
                println!("region {region} is to decide by {}", text(&policy));
                Ok(())
            }
            Command::Unset { region } => {
                self.control.change("DELETE", &format!("/admin/regions/{region}/policy"))?;
                println!("region {region} is to decide by its gateways' own files");
                Ok(())
            }
        }
    }

    fn show(&self, form: &ListForm) -> anyhow::Result<()> {
        let regions = self.control.snapshot()?.regions;
        let policies: BTreeMap<&String, &Option<Policy>> =
            regions.iter().map(|(name, one)| (name, &one.policy)).collect();
        let own = || "(the gateways' own)".into();
        let row = |(name, one): (&&String, &&Option<Policy>)| {
            vec![(*name).clone(), one.as_ref().map_or_else(own, text)]
        };
        form.print(&policies, &["REGION", "POLICY"], || policies.iter().map(row).collect())
    }
}

fn scalar(text: &str) -> Scalar {
    text.parse().map_or_else(|_| Scalar::Word(text.to_owned()), Scalar::Number)
}

fn text(policy: &Policy) -> String {
    let knobs = policy.params.iter().map(|(name, value)| match value {
        Scalar::Word(word) => format!(" {name}={word}"),
        other => format!(" {name}={other}"),
    });
    knobs.fold(policy.name.clone(), |text, knob| text + &knob)
}
