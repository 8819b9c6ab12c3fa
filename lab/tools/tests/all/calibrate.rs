//! Tests the fit of a live replica on a model engine with known coefficients, in paused time.

use std::time::Duration;

use meridian_engine::{Config, Profile, Work};
use meridian_engined::{Options as Engine, serve};
use meridian_tools::calibrate::{Found, Options, run};
use meridian_tools::fit;

fn engine() -> Engine {
    Engine::new(Config::new(Profile::named("llama-3.1-8b", "l4", 1).unwrap()))
}

async fn start(engine: Engine) -> String {
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        serve(engine, |at| ready.send(at).unwrap(), std::future::pending::<()>()).await.unwrap();
    });
    format!("http://{}", is_ready.await.unwrap())
}

fn short(url: &str) -> Options {
    let (url, seed) = (url.to_owned(), 7);
    Options { url, to: 2000, lengths: 6, rounds: 2, seed, ..Options::default() }
}

async fn fitted(options: &Options) -> Found {
    run(options, |_| {}).await.unwrap()
}

// The result is the line through the model's own prefill times, and the fit is good.
#[tokio::test(start_paused = true)]
async fn known_coefficients_come_back() {
    let engine = engine();
    let terms = engine.engine.profile.terms;
    let found = fitted(&short(&start(engine).await)).await;
    let expected: Vec<_> = (found.points.iter())
        .map(|point| {
            let mut work = Work::default();
            work.prefill(0, u32::try_from(point.tokens).unwrap());
            (point.tokens as f64, terms.seconds(&work) * 1e3)
        })
        .collect();
    let expected = fit::line(&expected).unwrap();
    assert_eq!((found.points.len(), found.warnings.as_slice()), (12, [].as_slice()));
    assert!(
        (found.line.slope / expected.slope - 1.0).abs() < 0.03,
        "{:?} {expected:?}",
        found.line
    );
    assert!(
        (found.line.intercept - expected.intercept).abs() < 5.0,
        "{:?} {expected:?}",
        found.line
    );
    let (low, high) = found.line.slope_interval();
    assert!(low < found.line.slope && found.line.slope < high && found.line.r2 > 0.99);
    assert!(
        found.points.iter().all(|point| point.cached == 0 && !point.busy),
        "{:?}",
        found.points
    );
    // Of growing length, again in each round.
    let tokens: Vec<_> = found.points.iter().map(|point| point.tokens).collect();
    assert!(tokens[..6].is_sorted() && tokens[6..].is_sorted() && tokens[6] < tokens[5]);
}

// Other requests on the replica are detected.
#[tokio::test(start_paused = true)]
async fn a_busy_replica() {
    let url = start(engine()).await;
    let body =
        r#"{"model":"llama-3.1-8b","messages":[{"role":"user","content":"hi"}],"max_tokens":4000}"#;
    let authority = url.trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut other = tokio::net::TcpStream::connect(&authority).await.unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: e\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        other.write_all((head + body).as_bytes()).await.unwrap();
        other.read_to_end(&mut Vec::new()).await.unwrap();
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let found = fitted(&short(&url)).await;
    assert!(
        found.warnings.iter().any(|w| w.contains("of 12 prompts: calibrate an idle one")),
        "{:?}",
        found.warnings
    );
}

// A model with a smaller context than requested bounds the prompts; an impossible measurement is
// reported.
#[tokio::test(start_paused = true)]
async fn bounds_and_errors() {
    let mut small = engine();
    small.engine.max_model_len = 1024;
    let url = start(small).await;
    let found = fitted(&short(&url)).await;
    assert!(found.warnings[0].contains("960 tokens at most"), "{:?}", found.warnings);
    assert!(found.points.iter().all(|point| point.tokens <= 1024));
    let error = async |options: Options| format!("{:#}", run(&options, |_| {}).await.unwrap_err());
    let bad = |change: fn(&mut Options)| {
        let mut options = short(&url);
        change(&mut options);
        options
    };
    for (options, wanted) in [
        (bad(|o| o.from = 2000), "to is 2000: use more tokens than from"),
        (bad(|o| o.from = 1500), "960 tokens at most: use a smaller from"),
        (bad(|o| o.lengths = 2), "points is 2"),
        (bad(|o| o.model = Some("other".to_owned())), "does not serve other"),
        (bad(|o| o.url = "http://127.0.0.1:1".to_owned()), "127.0.0.1:1/v1/models failed"),
    ] {
        let said = error(options).await;
        assert!(said.contains(wanted), "{wanted} is missing in {said}");
    }
}
