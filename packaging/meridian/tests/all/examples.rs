//! The configurations under `examples/`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `meridian` in a folder; it must succeed.
fn meridian(folder: &Path, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    let output = command.args(args).current_dir(folder).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: meridian {args:?}: {said}", folder.display());
}

/// The paths in a folder, sorted.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("names are text")
}

// Every gateway's file of an example passes the check, in a copy of its folder with the
// certificates that the example's own page makes.
#[test]
fn all_pass_the_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let copies = std::env::temp_dir().join(format!("meridian-examples-{}", std::process::id()));
    let mut checked = 0;
    for example in entries(&root).iter().filter(|path| path.is_dir()) {
        let copy = copies.join(name(example));
        std::fs::create_dir_all(&copy).expect("makes a folder");
        let files: Vec<_> = entries(example).into_iter().filter(|path| path.is_file()).collect();
        for file in &files {
            std::fs::copy(file, copy.join(name(file))).expect("copies a file");
        }
        let page = std::fs::read_to_string(example.join("README.md")).expect("it has a page");
        for line in page.lines().filter(|line| line.starts_with("meridian certs ")) {
            meridian(&copy, &line.split(' ').skip(1).collect::<Vec<_>>());
        }
        for file in files.iter().map(|path| name(path)).filter(|name| name.starts_with("gateway")) {
            meridian(&copy, &["check", "-c", file]);
            checked += 1;
        }
    }
    let _ = std::fs::remove_dir_all(&copies);
    assert!(checked >= 6, "{checked} files of examples were checked");
}
