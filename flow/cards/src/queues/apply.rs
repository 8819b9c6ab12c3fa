//! Runs the commands: all of them, or none.
//!
//! `tc -batch` runs the commands within milliseconds and stops at the first that fails; then the
//! root is deleted and the kernel's default comes back. Packets that wait in the old root when it
//! is replaced are lost, and TCP sends them again.

use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

use super::root::Root;
use super::shape::{Shape, ShapeError, checked};

/// Rules that could not be set or removed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error("cannot run `tc`: {0}; install iproute2")]
    NoTc(io::Error),
    #[error("device `{0}` is not there; `ip link` lists the devices")]
    NoDevice(String),
    #[error(
        "`tc {0}` needs CAP_NET_ADMIN; run the command as root, or without --apply to print the commands"
    )]
    NotPermitted(String),
    #[error(
        "{device} has a root qdisc of another program, {root}; look at it with `tc qdisc show dev \
         {device}`, and give --replace to put these rules in its place"
    )]
    Foreign { device: String, root: String },
    #[error(
        "{device} has a root qdisc of another program, {root}; this command removes only its own"
    )]
    NotOurs { device: String, root: String },
    #[error(
        "this kernel or its iproute2 has no {module} ({why}); load it with `modprobe {module}`, \
         install the kernel's package with it (Ubuntu: linux-modules-extra), or choose {instead}. \
         {after}"
    )]
    NoModule { module: &'static str, why: String, instead: &'static str, after: After },
    #[error("`tc {command}` failed: {why}. {after}")]
    Failed { command: String, why: String, after: After },
}

/// The state of a device after a failure.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum After {
    #[error("Nothing was changed")]
    Unchanged,
    #[error("The commands before it are undone: the device has the kernel's default again")]
    Removed,
    #[error("The commands before it could not be undone ({0}): see `tc qdisc show`")]
    Left(String),
}

/// What the rules took the place of.
#[derive(Debug, PartialEq, Eq)]
pub enum Applied {
    /// The kernel's default.
    New,
    /// Rules of this crate.
    Again,
    /// Another program's root.
    Replaced(String),
}

/// The `tc` of this network namespace or of a named one.
#[derive(Clone, Debug, Default)]
pub struct Tc {
    namespace: Option<String>,
}

impl Tc {
    /// The namespace of this process.
    #[must_use]
    pub fn here() -> Tc {
        Tc::default()
    }

    /// A namespace that `ip netns` lists.
    #[must_use]
    pub fn within(namespace: &str) -> Tc {
        Tc { namespace: Some(namespace.into()) }
    }

    /// The root of a device.
    ///
    /// # Errors
    ///
    /// When there is no such device, or no `tc`.
    pub fn root(&self, device: &str) -> Result<Root, ApplyError> {
        let device = checked(device)?;
        let command = format!("-json qdisc show dev {device}");
        let output = self.run(&command, "")?;
        let failed = |why: String| failure(&command, why, device, After::Unchanged);
        if !output.status.success() {
            return Err(failed(reason(&output)));
        }
        // A version without JSON, or one that prints nothing for a device that has gone.
        Root::read(&String::from_utf8_lossy(&output.stdout))
            .map_err(|error| failed(format!("its output is not as expected: {error}")))
    }

    /// Sets the rules. Doing it twice leaves the same state.
    ///
    /// # Errors
    ///
    /// When the root belongs to another program and `replace` is false, or a command fails; then
    /// the device keeps its old root or has the kernel's default.
    pub fn apply(&self, shape: &Shape, replace: bool) -> Result<Applied, ApplyError> {
        let device = &shape.device;
        let script = shape.script();
        let mut commands: Vec<String> = script.commands().map(str::to_owned).collect();
        let applied = match self.root(device)? {
            Root::Default(_) => Applied::New,
            Root::Other(root) if replace => Applied::Replaced(root),
            Root::Other(root) => return Err(ApplyError::Foreign { device: device.clone(), root }),
            Root::Ours { handle } => {
                // A root with another handle is replaced in one step; one with the same handle can
                // only be changed, which neither kind allows.
                if commands[0].contains(&format!("handle {handle:x}:")) {
                    commands.insert(0, delete(device));
                }
                Applied::Again
            }
        };
        self.batch(device, &commands)?;
        Ok(applied)
    }

    /// Removes the rules; false if the device has the kernel's default anyway.
    ///
    /// # Errors
    ///
    /// When the root belongs to another program, or `tc` fails.
    pub fn remove(&self, device: &str) -> Result<bool, ApplyError> {
        match self.root(device)? {
            Root::Default(_) => Ok(false),
            Root::Other(root) => Err(ApplyError::NotOurs { device: device.into(), root }),
            Root::Ours { .. } => self.batch(device, &[delete(device)]).map(|()| true),
        }
    }

    /// Runs commands that make the root of a device, in one batch; if one fails, the root is
    /// deleted.
    ///
    /// # Errors
    ///
    /// When a command fails.
    pub fn batch(&self, device: &str, commands: &[String]) -> Result<(), ApplyError> {
        let output = self.run("-batch -", &(commands.join("\n") + "\n"))?;
        if output.status.success() {
            return Ok(());
        }
        let why = reason(&output);
        let at = failed_line(&output).filter(|at| *at < commands.len()).unwrap_or_default();
        let after = if at == 0 { After::Unchanged } else { self.undo(device) };
        Err(failure(&commands[at], why, device, after))
    }

    fn undo(&self, device: &str) -> After {
        match self.run(&delete(device), "") {
            Ok(output) if output.status.success() => After::Removed,
            // The first command deleted the root and the second did not make one.
            _ if matches!(self.root(device), Ok(Root::Default(_))) => After::Removed,
            Ok(output) => After::Left(reason(&output)),
            Err(error) => After::Left(error.to_string()),
        }
    }

    fn run(&self, arguments: &str, input: &str) -> Result<Output, ApplyError> {
        let mut command = Command::new("tc");
        if let Some(namespace) = &self.namespace {
            command.args(["-netns", namespace]);
        }
        let command = command.args(arguments.split(' ')).env("LC_ALL", "C");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().map_err(ApplyError::NoTc)?;
        let mut stdin = child.stdin.take().expect("it is piped");
        // A tc that ends at its first command closes the pipe, and its own message says why.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().map_err(ApplyError::NoTc)
    }
}

fn delete(device: &str) -> String {
    format!("qdisc del dev {device} root")
}

fn failure(command: &str, why: String, device: &str, after: After) -> ApplyError {
    let lower = why.to_ascii_lowercase();
    let holds = |part: &str| lower.contains(part);
    if holds("cannot find device") {
        return ApplyError::NoDevice(device.into());
    }
    if holds("operation not permitted") {
        return ApplyError::NotPermitted(command.into());
    }
    // From the kernel; from an iproute2 that is too old; from a kernel without reasons.
    let missing = ["kind is unknown", "unknown qdisc", "not found", "no such file"];
    let missing = missing.into_iter().any(holds);
    let (module, instead) = match () {
        () if missing && command.contains(": ets ") => ("sch_ets", "--kind htb"),
        () if missing && command.contains(": htb ") => ("sch_htb", "--kind ets"),
        () if missing && command.contains(" u32 ") => ("cls_u32", "another kernel"),
        () => return ApplyError::Failed { command: command.into(), why, after },
    };
    ApplyError::NoModule { module, why, instead, after }
}

/// The first line of the errors, which has the reason; usage texts follow it.
fn reason(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    let first = first.map(|line| line.trim_start_matches("Error: ").trim_end_matches('.'));
    first.map_or_else(|| format!("tc ended with {}", output.status), str::to_owned)
}

/// `Command failed -:3` counts the lines of a batch from 1.
fn failed_line(output: &Output) -> Option<usize> {
    let text = String::from_utf8_lossy(&output.stderr);
    let number = text.lines().rev().find_map(|line| line.strip_prefix("Command failed -:"))?;
    number.trim().parse::<usize>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::{ets, htb};

    fn of(command: &str, why: &str) -> String {
        failure(command, why.into(), "eth0", After::Unchanged).to_string()
    }

    // A missing module names itself and the way out; other reasons stay as tc gives them.
    #[test]
    fn reasons_become_remedies() {
        let ets = format!("qdisc replace dev eth0 root handle {:x}: ets bands 3", ets::HANDLE);
        let htb = format!("qdisc replace dev eth0 root handle {:x}: htb default 9", htb::HANDLE);
        let unknown = "Specified qdisc kind is unknown";
        assert!(of(&ets, unknown).contains("`modprobe sch_ets`"));
        assert!(of(&ets, "Unknown qdisc \"ets\", hence ...").contains("--kind htb"));
        assert!(of(&htb, unknown).contains("`modprobe sch_htb`"));
        assert!(of("filter add dev a u32 x", "TC classifier not found").contains("cls_u32"));
        assert!(of(&htb, "RTNETLINK answers: Operation not permitted").contains("CAP_NET_ADMIN"));
        let other = of(&htb, "Exclusivity flag on");
        assert!(other.ends_with("failed: Exclusivity flag on. Nothing was changed"), "{other}");
    }
}
