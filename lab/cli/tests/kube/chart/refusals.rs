//! Values that the chart refuses, with the value and the remedy, and some that look wrong and are not.

use super::Chart;

// Each refusal names the value.
#[tokio::test]
async fn wrong_values() {
    let chart = Chart::ours().await;
    for (values, parts) in [
        ("replica=3", &["additional properties 'replica' not allowed"][..]),
        ("service.prot=1", &["'/service'", "'prot' not allowed"]),
        ("replicas=0", &["/replicas", "minimum: got 0, want 1"]),
        ("secrets.mounts={own}", &["/secrets/mounts/0"]),
        ("regions.service.type=Loadbalancer", &["/regions/service/type", "'LoadBalancer'"]),
        (
            "terminationGracePeriodSeconds=600,config.timeouts.drain=2h",
            &["preStopSeconds (5)", "config.timeouts.drain (7200 s)", "use 7206 or more"],
        ),
        // SIGKILL at the very moment when the drain ends would still cut requests.
        ("terminationGracePeriodSeconds=305", &["are 305 s; use 306 or more"]),
        ("config.timeouts.drain=soon", &["config.timeouts.drain: `soon`", "as in 30s, 5m or 1h"]),
        ("config.listen=0.0.0.0:9", &["config.listen: `0.0.0.0:9`", "port 8080", "service.port"]),
        ("config.admin=127.0.0.1:1", &["config.admin", "port 8081"]),
        ("regions.enabled=true", &["secrets.existing: all regions need one peers-secret"]),
        (
            "regions.enabled=true,secrets.existing=a,autoscaling.enabled=true",
            &["autoscaling.enabled", "set it to false"],
        ),
        (
            "control.enabled=true,control.replicas=2",
            &["control.replicas: 2", "control.config.etcd"],
        ),
        ("control.enabled=true,control.config.admin=0.0.0.0:1", &["control.config.admin", "8090"]),
        (
            "autoscaling.enabled=true,autoscaling.minReplicas=9",
            &["autoscaling.minReplicas: 9 is more than autoscaling.maxReplicas, 6"],
        ),
    ] {
        let error = chart.render(&["--set", values]).expect_err(values);
        for part in parts {
            assert!(error.contains(part), "{values}: {part} is missing in {error}");
        }
    }
}

// The grace period covers the drain in every unit of time; a single gateway has no disruption budget, which would keep
// its node from being drained.
#[tokio::test]
async fn values_that_are_right() {
    let chart = Chart::ours().await;
    for (values, text) in [
        ("config.timeouts.drain=1500ms", "terminationGracePeriodSeconds: 17"),
        ("config.timeouts.drain=1h 30m", "terminationGracePeriodSeconds: 5415"),
        ("preStopSeconds=20", "terminationGracePeriodSeconds: 330"),
        ("terminationGracePeriodSeconds=306", "terminationGracePeriodSeconds: 306"),
        ("global.any=1", "kind: PodDisruptionBudget"),
    ] {
        let rendered = chart.render(&["--set", values]).expect(values);
        assert!(rendered.contains(text), "{values}: {text} is missing in {rendered}");
    }
    let single = chart.render(&["--set", "replicas=1"]).expect("one gateway");
    assert!(!single.contains("PodDisruptionBudget") && single.contains("siblings:"), "{single}");
}
