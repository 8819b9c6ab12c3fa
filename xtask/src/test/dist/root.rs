//! Runs a program with a folder as the root of its file system.
//!
//! `chroot` needs root, or a user namespace in which this user is root. Where neither is permitted,
//! the folder's own dynamic loader starts the program with the folder's libraries.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::installed::Installed;
use crate::cmd::stdout_of;

const PROGRAM: &str = "/usr/bin/meridian";

/// `/usr/bin/meridian` of the folder, run as this user of the folder where that is permitted.
pub(super) fn enter(root: &Path, user: Option<&str>) -> anyhow::Result<Installed> {
    let folder = root.join("tmp");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let place = root.to_str().context("the checkout's path is not text")?;
    let mut refused = Vec::new();
    for (inside, command) in ways(place, user) {
        let inside = Path::new(&inside).join("tmp");
        let way = command.join(" ");
        let installed = Installed { command, folder: folder.clone(), inside };
        match stdout_of(installed.call(&["--version"])) {
            Ok(_) => {
                println!("runs by {way}");
                return Ok(installed);
            }
            Err(error) => refused.push(format!("{error:#}")),
        }
    }
    bail!("the program does not start in {place}:\n{}", refused.join("\n"))
}

/// Pairs of the root as the program sees it and of the command line, the nearest to a container
/// first.
fn ways(root: &str, user: Option<&str>) -> [(String, Vec<String>); 3] {
    let user = user.map(|user| format!("--userspec={user}:{user}"));
    let chroot = ["chroot"].into_iter().chain(user.as_deref()).chain([root, PROGRAM]);
    let namespace = ["unshare", "--map-root-user", "chroot", root, PROGRAM];
    let libraries = format!("{root}/lib/x86_64-linux-gnu");
    let (loader, program) =
        (format!("{libraries}/ld-linux-x86-64.so.2"), format!("{root}{PROGRAM}"));
    let loaded = [loader.as_str(), "--library-path", &libraries, &program];
    let as_root = || "/".to_owned();
    [(as_root(), owned(chroot)), (as_root(), owned(namespace)), (root.to_owned(), owned(loaded))]
}

fn owned<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// A command that may act as root on files of this user.
pub(super) fn as_root(program: &str) -> anyhow::Result<Command> {
    let mut id = Command::new("id");
    id.arg("-u");
    if stdout_of(id)?.trim() == "0" {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", program]);
    Ok(command)
}
