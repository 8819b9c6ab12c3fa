//! The header and the shared library, with a C compiler: the one that links Rust's programs.

use std::path::Path;
use std::process::Command;

// `client.c` compiles without a warning, links against the library and ends with 0.
#[test]
fn a_client_in_c_compiles_and_runs() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    // The test runs from target/debug/deps, beside which cargo puts the shared library.
    let test = std::env::current_exe().expect("a test has a path");
    let built = test.parent().expect("a program is in a folder");
    let out = tempfile(built);
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .args([&out, &here.join("client.c")])
        .arg(built.join("libmeridian_flow_abi.so"))
        .status()
        .expect("cc is there: it links Rust's programs");
    assert!(compiled.success());
    let ran = Command::new(&out).env("LD_LIBRARY_PATH", built).status();
    std::fs::remove_file(&out).ok();
    assert_eq!(ran.expect("the client starts").code(), Some(0));
}

fn tempfile(folder: &Path) -> std::path::PathBuf {
    folder.join(format!("flow-client-{}", std::process::id()))
}
