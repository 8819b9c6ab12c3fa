//! The Kubernetes documents of plans and examples, in a validator with Kubernetes' own schemas that
//! refuses fields it does not know.

use std::path::{Path, PathBuf};
use std::process::Command;

use meridian_fleet::venv::{self, Pins};

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

/// A Python with the validator.
async fn validator() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    must(venv::install(&venv::home(&root, "kubernetes"), PINS).await)
}

/// All documents of a file are valid in all versions.
fn is_valid(python: &Path, file: &Path, documents: usize) {
    for version in VERSIONS {
        let (good, said) = validated(python, version, file);
        assert!(good, "{said}");
        assert_eq!(said.matches("passed for resource").count(), documents, "{said}");
    }
}

// The jobs of an experiment in shards are valid, and their number is that of the shards.
#[tokio::test]
async fn jobs_of_shards() {
    let python = validator().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/experiment-shards");
    let job = example.join("job.yaml");
    is_valid(&python, &job, 2);
    is_valid(&python, &example.join("merge.yaml"), 1);
    let text = std::fs::read_to_string(&job).expect("it can be read");
    let (_, rest) = text.split_once("completions: ").expect("it has completions");
    let shards = rest.lines().next().unwrap_or_default();
    assert!(text.contains(&format!("$(JOB_COMPLETION_INDEX)/{shards},")), "{text}");
}

// The Deployment, its Service and the HorizontalPodAutoscaler of the example of scaling from zero.
#[tokio::test]
async fn scaling_from_zero() {
    let python = validator().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scale-from-zero");
    is_valid(&python, &example.join("deployment.yaml"), 2);
    is_valid(&python, &example.join("hpa.yaml"), 1);
}

// Instances of one GPU, and of several servers with a Deployment each.
#[tokio::test]
async fn rendered_plans() {
    let python = validator().await;
    let folder = std::env::temp_dir().join(format!("meridian-kubernetes-{}", std::process::id()));
    for model in ["llama-3.1-8b", "opt-66b"] {
        let rendered = folder.join(model);
        let mut command = Command::new(crate::programs::MERIDIAN);
        command.args(["plan", "--topology", "heroserve-testbed", "--model", model, "--render"]);
        let done = command.arg(&rendered).output().expect("the program starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

        let file = rendered.join("kubernetes.yaml");
        let text = std::fs::read_to_string(&file).expect("it was written");
        let documents = text.matches("\nkind: ").count();
        assert!(documents > 5, "{text}");
        is_valid(&python, &file, documents);

        let wrong = text.replacen("readinessProbe:", "readynessProbe:", 1);
        assert_ne!(wrong, text);
        std::fs::write(&file, wrong).expect("writes");
        let (good, said) = validated(&python, VERSIONS[0], &file);
        assert!(!good && said.contains("readynessProbe"), "{said}");
    }
    std::fs::remove_dir_all(&folder).expect("removes the folder");
}
