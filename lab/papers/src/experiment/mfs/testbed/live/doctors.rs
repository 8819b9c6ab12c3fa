//! The processes of `meridian flow doctor`, one a host, while a run is under way.

use std::process::{Child, Stdio};

use anyhow::{Context as _, ensure};

use super::super::flows::HOSTS;
use super::super::plan::Plan;
use super::LEAD;
use super::network::{DEVICE, Network, mbps};
use super::place::Place;
use crate::experiment::spec::FlowTestbed;

/// Those that run.
#[derive(Default)]
pub(super) struct Doctors(Vec<Child>);

impl Doctors {
    /// Starts one at each host when the run begins. They watch until the last request has arrived.
    ///
    /// # Errors
    /// If a process can't be started.
    pub(super) fn start(
        spec: &FlowTestbed,
        plan: &Plan,
        network: &Network,
        place: &Place,
    ) -> anyhow::Result<Doctors> {
        std::thread::sleep(LEAD);
        let last = plan.requests.last().map_or(0.0, |one| one.arrival);
        let (span, rate) = (format!("{:.0}s", last.max(1.0)), mbps(spec));
        let mut doctors = Doctors::default();
        for host in HOSTS {
            let mut command = place.meridian(network, host);
            command.args(["flow", "doctor", "--json", "--kv-layers", "1", "--for", &span]);
            command.args(["--card", DEVICE, "--rate", &format!("{DEVICE}={rate}Mbps")]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            doctors.0.push(command.spawn().context("meridian flow doctor: cannot be started")?);
        }
        Ok(doctors)
    }

    /// Waits for their reports.
    ///
    /// # Errors
    /// If a doctor failed.
    pub(super) fn reports(mut self) -> anyhow::Result<Vec<Vec<u8>>> {
        let all = std::mem::take(&mut self.0).into_iter().map(|child| {
            let output = child.wait_with_output()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "meridian flow doctor: {}", errors.trim());
            Ok(output.stdout)
        });
        all.collect()
    }
}

impl Drop for Doctors {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
