//! The Kubernetes documents of plans, in a validator with Kubernetes' own schemas that refuses fields it
//! does not know.

use std::path::Path;
use std::process::Command;

use meridian_lab::venv::{self, Pins};

use crate::common::must;

const PINS: Pins =
    Pins { name: "kubernetes", key: "KUBERNETES_PIP", module: "kubernetes_validate" };
/// The newest schemas of the package, and those of the oldest release that clouds still run.
const VERSIONS: [&str; 2] = ["1.37", "1.32"];

/// Whether the validator accepts all documents of a file, and what it prints.
fn validated(python: &Path, version: &str, file: &Path) -> (bool, String) {
    let mut command = Command::new(python);
    command.args(["-m", "kubernetes_validate", "--strict", "-k", version]).arg(file);
    let done = command.output().expect("the validator starts");
    let said = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&said).into_owned())
}

// Instances of one GPU, and of several servers with a Deployment each.
#[tokio::test]
async fn rendered_plans() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = must(venv::install(&venv::home(&root, "kubernetes"), PINS).await);
    let folder = std::env::temp_dir().join(format!("meridian-kubernetes-{}", std::process::id()));
    for model in ["llama-3.1-8b", "opt-66b"] {
        let rendered = folder.join(model);
        let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
        command.args(["plan", "--topology", "heroserve-testbed", "--model", model, "--render"]);
        let done = command.arg(&rendered).output().expect("the program starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

        let file = rendered.join("kubernetes.yaml");
        let text = std::fs::read_to_string(&file).expect("it was written");
        let documents = text.matches("\nkind: ").count();
        assert!(documents > 5, "{text}");
        for version in VERSIONS {
            let (good, said) = validated(&python, version, &file);
            assert!(good, "{said}");
            assert_eq!(said.matches("passed for resource").count(), documents, "{said}");
        }

        let wrong = text.replacen("readinessProbe:", "readynessProbe:", 1);
        assert_ne!(wrong, text);
        std::fs::write(&file, wrong).expect("writes");
        let (good, said) = validated(&python, VERSIONS[0], &file);
        assert!(!good && said.contains("readynessProbe"), "{said}");
    }
    std::fs::remove_dir_all(&folder).expect("removes the folder");
}
