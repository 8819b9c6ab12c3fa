//! The Python package with this library: its unit tests, and those that need no engine.

use std::path::Path;
use std::process::Command;

// Gate, wrappers and vLLM's hooks, against fake engines and against the real library.
#[test]
fn the_python_package_passes_its_tests() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
    let test = std::env::current_exe().expect("a test has a path");
    let built = test.parent().expect("a program is in a folder");
    let modules = ["test_gate", "test_mooncake", "test_vllm", "test_real_library"];
    let ran = Command::new("python3")
        .args(["-B", "-m", "unittest"])
        .args(modules.map(|name| format!("tests.{name}")))
        .current_dir(package)
        .env("MERIDIAN_FLOW_LIBRARY", built.join("libmeridian_flow_abi.so"))
        .env("MERIDIAN_REQUIRE_REAL", "1")
        .output()
        .expect("python3 is there: `./x` installs it");
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{text}");
    // A run that finds no tests succeeds too.
    let count = text.split("Ran ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert!(count.is_some_and(|count: u32| count >= 40), "{text}");
}
