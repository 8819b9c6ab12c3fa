//! kubernetes.yaml, read as YAML.

use serde_json::Value;

use super::*;

fn documents(files: &Files) -> Vec<Value> {
    let text = file(files, "kubernetes.yaml");
    text.split("---\n").skip(1).map(|one| serde_saphyr::from_str(one).unwrap()).collect()
}

fn pods(all: &[Value]) -> impl Iterator<Item = &Value> {
    all.iter().filter(|one| one["kind"] == "Deployment").map(|one| &one["spec"]["template"]["spec"])
}

// The documents request as many GPUs as there are ranks, and selectors match the pods' labels.
#[test]
fn documents_request_every_gpu() {
    for files in every_form() {
        let all = documents(&files);
        let gpus = |pod: &Value| {
            let limit = pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"].as_str();
            limit.map_or(0, |count| count.parse::<usize>().unwrap())
        };
        assert_eq!(pods(&all).map(gpus).sum::<usize>(), ranks(&files));
        for one in all.iter().filter(|one| one["kind"] == "Deployment") {
            let labels = &one["spec"]["template"]["metadata"]["labels"];
            let selected = one["spec"]["selector"]["matchLabels"].as_object().unwrap();
            assert!(selected.iter().all(|(name, value)| labels[name] == *value), "{one}");
        }
    }
}

// Every engine has shared memory, the address of its server, and a pinned image; those with an HTTP
// port have all three probes.
#[test]
fn an_engine_pod_can_start() {
    let forms = every_form();
    let all: Vec<Value> = forms.iter().flat_map(documents).collect();
    let engines: Vec<&Value> = pods(&all).filter(|pod| pod["hostNetwork"] == true).collect();
    for pod in &engines {
        let engine = &pod["containers"][0];
        assert_eq!(engine["volumeMounts"][0]["mountPath"], "/dev/shm");
        assert_eq!(pod["volumes"][0]["emptyDir"]["medium"], "Memory");
        let host = &engine["env"][0];
        assert_eq!(host["name"], "VLLM_NIXL_SIDE_CHANNEL_HOST");
        assert_eq!(host["valueFrom"]["fieldRef"]["fieldPath"], "status.hostIP");
        assert!(engine["image"].as_str().unwrap().contains(":v"), "{engine}");
        let headless = engine["command"].as_array().unwrap().contains(&"--headless".into());
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            assert_eq!(engine[probe].is_null(), headless, "{engine}");
        }
    }
    assert_eq!(engines.len(), 11);
}

// The gateway's file names the services of the same documents, by their ports.
#[test]
fn the_gateway_reaches_every_service() {
    let all = documents(&every_form()[0]);
    let map = all.iter().find(|one| one["kind"] == "ConfigMap").unwrap();
    let text = map["data"]["gateway.yaml"].as_str().unwrap();
    let file: Value = serde_saphyr::from_str(text).unwrap();
    let urls: Vec<&str> = file["replicas"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["url"].as_str().unwrap())
        .collect();
    let services = all
        .iter()
        .filter(|one| one["kind"] == "Service" && one["metadata"]["name"] != "meridian-gateway");
    let reached: Vec<String> = services
        .map(|one| {
            let (name, ports) = (&one["metadata"]["name"], &one["spec"]["ports"]);
            format!("http://{}:{}", name.as_str().unwrap(), ports[0]["port"])
        })
        .collect();
    assert_eq!(urls, reached);
}

// An instance without a pod is still a replica: without its role the others would form no pair.
#[test]
fn the_gateway_has_instances_that_are_started_by_hand() {
    let files = of_testbed("opt-66b");
    let count = |text: &str| text.matches("url: http://").count();
    assert!(file(&files, "vllm.sh").contains("start it with Ray"));
    assert_eq!(count(file(&files, "kubernetes.yaml")), count(file(&files, "gateway.yaml")));
    let map = documents(&files).into_iter().find(|one| one["kind"] == "ConfigMap").unwrap();
    let roles = map["data"]["gateway.yaml"].as_str().unwrap();
    assert!(roles.contains("role: prefill") && roles.contains("role: decode"), "{roles}");
}
