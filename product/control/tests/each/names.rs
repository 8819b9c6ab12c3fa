//! Mistyped region names and parameters.

use crate::stores;
use serde_json::{Value, json};

// An unknown region is refused with the nearest known one, and nothing is written; `force` creates
// it.
#[tokio::test]
async fn unknown_regions_are_refused_with_the_nearest() {
    let plane = stores::plane("").await;
    for region in ["eu-west", "us"] {
        plane.ask("PUT", &format!("/admin/regions/{region}"), json!({})).await;
    }
    let before = plane.snapshot().await;
    let replica = json!({"region": "eu-wset", "spec": {"url": "http://10.0.0.1:8000"}});
    let adopters = json!({"adopters": ["eu-west", "uss"]});
    let cases = [
        (
            "PUT",
            "/admin/replicas/a",
            replica.clone(),
            "region: there is no region `eu-wset`; did you mean `eu-west`?",
        ),
        ("POST", "/admin/regions/eu-wset/drain", Value::Null, "did you mean `eu-west`?"),
        ("POST", "/admin/regions/mars/drain", Value::Null, "known: eu-west, us."),
        ("POST", "/admin/regions/usa/undrain", Value::Null, "did you mean `us`?"),
        ("PUT", "/admin/regions/usa/policy", json!("p2c"), "did you mean `us`?"),
        ("DELETE", "/admin/regions/usa/policy", Value::Null, "did you mean `us`?"),
        (
            "PUT",
            "/admin/regions/us",
            adopters.clone(),
            "adopters: there is no region `uss`; did you mean `us`?",
        ),
    ];
    for (method, path, body, part) in cases {
        let (status, said) = plane.ask(method, path, body).await;
        let message = said["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(
            (status, &said["error"]["code"]),
            (404, &json!("unknown_region")),
            "{path}: {said}"
        );
        assert!(message.contains(part), "{path}: {part:?} is not in {message:?}");
        assert!(message.contains("force=true"), "{message}");
    }
    assert_eq!(plane.snapshot().await, before);
    let put = async |path: &str, body: Value| plane.ask("PUT", path, body).await.0;
    assert_eq!(put("/admin/replicas/a?force=true", replica).await, 201);
    assert_eq!(put("/admin/regions/us?force=true", adopters.clone()).await, 200);
    assert_eq!(put("/admin/regions/us", adopters).await, 200, "its previous adopters may stay");
    let drained = plane.ask("POST", "/admin/regions/mars/drain?force=1", Value::Null).await;
    assert_eq!(drained.0, 200, "{}", drained.1);
    assert_eq!(plane.snapshot().await.regions["mars"].wanted.name(), "draining");
}

// Booleans are read in the usual spellings. An invalid value or parameter is refused before
// anything is done.
#[tokio::test]
async fn parameters_are_read_strictly() {
    let plane = stores::plane("").await;
    let replica = json!({"region": "eu", "spec": {"url": "http://10.0.0.1:8000"}});
    for (path, part) in [
        ("/admin/replicas/a?force=ture", "force: `ture` is not a yes or no"),
        ("/admin/replicas/a?frce=true", "?frce: is not a parameter of this request; use force"),
    ] {
        let (status, said) = plane.ask("PUT", path, replica.clone()).await;
        assert_eq!((status, &said["error"]["code"]), (400, &json!("invalid_parameter")), "{path}");
        assert!(said["error"]["message"].as_str().unwrap().contains(part), "{said}");
    }
    assert_eq!(plane.ask("PUT", "/admin/replicas/a?force=yes", replica).await.0, 201);
    assert_eq!(plane.ask("DELETE", "/admin/replicas/a", Value::Null).await.0, 200);
    assert_eq!(plane.ask("DELETE", "/admin/replicas/a?forget=maybe", Value::Null).await.0, 400);
    assert_eq!(plane.ask("GET", "/admin/replicas?region=eu", Value::Null).await.0, 400);
    assert_eq!(plane.ask("DELETE", "/admin/replicas/a?forget=True", Value::Null).await.0, 200);
    assert_eq!(plane.get("/admin/replicas").await, json!([]));
}
