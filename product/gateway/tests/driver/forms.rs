//! Requests whose model is not in JSON: in a form, in the query, or nowhere.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use meridian_config::{Gateway as Config, ModelSettings};

use crate::common::{Answer, Region, Replica, Script, call, get, post};

const AUDIO: &str = "/v1/audio/transcriptions";
const BOUNDARY: &str = "------------------------d74496d66958873e";

/// A form as clients send it: its fields before or after the file.
fn form(fields: &[(&str, &str)], file_first: bool) -> Vec<u8> {
    let part = |head: &str, content: &[u8]| {
        let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n");
        [head.as_bytes(), b"Content-Type: application/octet-stream\r\n\r\n", content, b"\r\n"]
            .concat()
    };
    let file = part("name=\"file\"; filename=\"a.wav\"", &[0xFF; 300_000]);
    let fields: Vec<u8> = fields
        .iter()
        .flat_map(|(name, value)| part(&format!("name=\"{name}\""), value.as_bytes()))
        .collect();
    let parts = if file_first { [file, fields].concat() } else { [fields, file].concat() };
    [parts, format!("--{BOUNDARY}--\r\n").into_bytes()].concat()
}

fn upload(target: &str, body: &[u8]) -> Request<Full<Bytes>> {
    let request = Request::post(target)
        .header("host", "gateway")
        .header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"))
        .body(Full::new(Bytes::copy_from_slice(body)));
    request.unwrap()
}

async fn send(region: &Region, target: &str, body: &[u8]) -> Answer {
    call(region.listen, upload(target, body)).await
}

fn aliased(config: &mut Config) {
    let alias = ModelSettings { alias: Some("whisper".to_owned()), ..ModelSettings::default() };
    config.models = BTreeMap::from([("whisper-1".to_owned(), alias)]);
}

// Defect multipart-model: a form goes to a replica of the model in its field `model`, before or after the file, and not to any replica.
#[tokio::test(start_paused = true)]
async fn the_field_routes() {
    let (chat, audio) = (Replica::start().await, Replica::of(&["whisper"]).await);
    let region = Region::of(&[&chat, &audio]).await;
    for file_first in [false, true] {
        for _ in 0..10 {
            let body = form(&[("model", "whisper"), ("language", "en")], file_first);
            let answer = send(&region, AUDIO, &body).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(audio.last().body == body, "the body is the client's");
        }
    }
    assert_eq!((chat.count(), audio.count()), (0, 20));
    let other = send(&region, AUDIO, &form(&[("model", "nope")], false)).await;
    assert_eq!((other.status, other.code().as_str()), (404, "model_not_found"));
    assert_eq!(region.settled().await.requests.done, 20);
}

// Defect multipart-model: a form without a model is routed by the query, or else refused with the remedy if the replicas serve several models.
#[tokio::test(start_paused = true)]
async fn without_the_field() {
    let (chat, audio) = (Replica::start().await, Replica::of(&["whisper"]).await);
    let region = Region::of(&[&chat, &audio]).await;
    let body = form(&[("language", "en")], false);
    for _ in 0..4 {
        let target = format!("{AUDIO}?model=whisper");
        assert_eq!(send(&region, &target, &body).await.status, 200);
        let answer = send(&region, AUDIO, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"));
        assert_eq!(answer.json()["error"]["param"], "model");
        assert!(answer.text().contains("as a field of the form"), "{}", answer.text());
    }
    assert_eq!((chat.count(), audio.count()), (0, 4));
    // One model leaves no choice, and an adapter of its engine is no other one.
    let (a, b) = (Replica::start().await, Replica::start().await);
    let list = r#"{"data":[{"id":"m","parent":null},{"id":"adapter","parent":"m"}]}"#;
    a.page("/v1/models", Script::json(200, list));
    let region = Region::of(&[&a, &b]).await;
    for _ in 0..2 {
        assert_eq!(send(&region, AUDIO, &body).await.status, 200);
        assert_eq!(post(region.listen, "/v1/completions", r#"{"prompt":"x"}"#).await.status, 200);
    }
    assert_eq!(a.count() + b.count(), 4);
    assert_eq!(b.last().text(), r#"{"model":"m","prompt":"x"}"#);
    // Neither is the first model of an engine that has several.
    let several = Replica::of(&["m", "n"]).await;
    let region = Region::of(&[&several]).await;
    assert_eq!(send(&region, AUDIO, &body).await.status, 400);
    assert_eq!(several.count(), 0);
}

// Defect multipart-model: an alias in a form or in a query reaches the engine as the model's own name.
#[tokio::test(start_paused = true)]
async fn aliases() {
    let (chat, audio) = (Replica::start().await, Replica::of(&["whisper"]).await);
    let paths = vec!["/version".to_owned()];
    let region = Region::with(&[&chat, &audio], |config| {
        aliased(config);
        config.paths = paths;
    })
    .await;
    for file_first in [false, true] {
        let sent = form(&[("model", "whisper-1"), ("n", "1")], file_first);
        assert_eq!(send(&region, AUDIO, &sent).await.status, 200);
        let expected = form(&[("model", "whisper"), ("n", "1")], file_first);
        assert!(audio.last().body == expected, "only the name changes");
    }
    let target = format!("{AUDIO}?a=b&model=whisper%2D1");
    assert_eq!(send(&region, &target, &form(&[], true)).await.status, 200);
    assert_eq!(audio.last().target, format!("{AUDIO}?a=b&model=whisper"));
    assert_eq!(get(region.listen, "/version?model=whisper-1").await.status, 200);
    assert_eq!(audio.last().target, "/version?model=whisper");
    assert_eq!((chat.count(), audio.count()), (0, 4));
}

// Limits of a model count its forms, too.
#[tokio::test(start_paused = true)]
async fn limits() {
    let audio = Replica::of(&["whisper"]).await;
    let region = Region::with(&[&audio], |config| {
        aliased(config);
        let mut limited = ModelSettings::default();
        limited.limits.requests = Some(1);
        config.models.insert("whisper".to_owned(), limited);
    })
    .await;
    audio.then(Script::silence());
    let body = form(&[("model", "whisper-1")], true);
    let first = tokio::spawn(call(region.listen, upload(AUDIO, &body)));
    region.until("the first is there", |_| audio.count() == 1).await;
    let answer = send(&region, AUDIO, &body).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "model_limit_exceeded"));
    first.abort();
    region.settled().await;
    assert_eq!(audio.count(), 1);
}
