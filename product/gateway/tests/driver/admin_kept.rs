//! Lifetime of changes made at the admin port.

use crate::common::{Region, Replica};

// The response says how long a change lasts: replicas in the file are back after a restart, others
// are gone.
#[tokio::test(start_paused = true)]
async fn the_answer_says_how_long_a_change_lasts() {
    let (listed, other) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&listed]).await;
    let add = async |replica: &Replica| {
        let body = format!(r#"{{"url":"{}"}}"#, replica.url());
        let answer = region.admin("POST", "/admin/replicas", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["kept"].as_str().unwrap().to_owned()
    };
    let remove = async |path: &str| region.admin("DELETE", path, "").await.text().to_owned();
    let kept = add(&other).await;
    assert!(kept.starts_with("until this gateway restarts; to keep it, list it"), "{kept}");
    assert_eq!(remove("/admin/replicas/r1").await, "removed");
    let said = remove("/admin/replicas/r0").await;
    assert!(said.starts_with("removed; ") && said.ends_with("or the gateway restarts"), "{said}");
    assert_eq!(add(&listed).await, "`replicas` of this gateway's file lists it");
    let said = remove("/admin/replicas/r0.2?drain=1").await;
    assert!(said.starts_with("draining; "), "{said}");
}
