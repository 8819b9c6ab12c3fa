use super::super::Endpoint::*;
use super::super::read;
use super::reading;

const PARAMS: &str =
    r#"{"kv_transfer_params":{"do_remote_prefill":true},"model":"m","prompt":"x"}"#;

fn wide(text: &str, unit: usize, little: bool, mark: bool) -> Vec<u8> {
    let mark = if mark { "\u{FEFF}" } else { "" };
    let of = |c: char| {
        let bytes = (c as u32).to_be_bytes();
        let mut bytes = bytes[4 - unit..].to_vec();
        if little {
            bytes.reverse();
        }
        bytes
    };
    mark.chars().chain(text.chars()).flat_map(of).collect()
}

// A body that Python's `json.loads` reads as JSON and the gateway cannot is refused, on an engine's
// own path as well as on the API's. The message names a valid encoding.
#[test]
fn what_only_others_read_is_refused() {
    let mut bodies: Vec<(String, Vec<u8>)> = Vec::new();
    for unit in [2, 4] {
        for little in [false, true] {
            for mark in [false, true] {
                let name = format!("UTF-{} little={little} mark={mark}", unit * 8);
                bodies.push((name, wide(PARAMS, unit, little, mark)));
                let spaced = format!(" \n{PARAMS}");
                bodies.push((
                    format!("spaced, {unit} {little} {mark}"),
                    wide(&spaced, unit, little, mark),
                ));
                let array = format!("[{PARAMS}]");
                bodies.push((
                    format!("array, {unit} {little} {mark}"),
                    wide(&array, unit, little, mark),
                ));
            }
        }
    }
    let deep = format!(
        r#"{{"sampling_params":{}{{"kv_transfer_params":1}}{},"model":"m","prompt":"x"}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    for (name, text) in [
        ("UTF-8 with a mark", format!("\u{FEFF}{PARAMS}")),
        ("NaN", PARAMS.replace("true", "NaN")),
        ("Infinity", PARAMS.replace("true", "Infinity")),
        ("-Infinity", PARAMS.replace("\"x\"", "-Infinity")),
        ("a lone surrogate in a name", PARAMS.replace("model", r"\udc00model")),
        ("nesting", deep),
    ] {
        bodies.push((name.to_owned(), text.into_bytes()));
    }
    // A surrogate in UTF-8, which `json.loads` accepts.
    let mut surrogate = PARAMS.as_bytes().to_vec();
    surrogate.splice(2..2, [0xED, 0xA0, 0x80]);
    bodies.push(("a surrogate".to_owned(), surrogate));
    for (name, body) in &bodies {
        for endpoint in [Other, Completions, Embeddings] {
            let bad = read(endpoint, body, &reading()).map(|_| ()).expect_err(name);
            assert!(
                bad.message.starts_with("the body ") || bad.message.contains("nests deeper"),
                "{name}: {bad}"
            );
            assert!(!bad.message.contains("do_remote"), "{name}: {bad}");
        }
    }
}

// On an engine's own paths, a body passes if no parser takes it for a JSON object or array:
// multipart forms, sound, text, an empty body.
#[test]
fn what_is_no_json_passes() {
    for body in [
        &b""[..],
        b"--b\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n{\"kv_transfer_params\":1}\r\n--b--",
        b"RIFF\x00\x00\x00\x00WAVE",
        b"ID3\x04",
        b"\x00\x00\x00\x1cftyp",
        b"model=m&file=x",
        b"no JSON at all",
        b"\"{\"",
        b"\xEF\xBB\xBF",
    ] {
        let info = read(Other, body, &reading()).expect("it passes");
        assert_eq!(info.splices.iter().count(), 0);
    }
}
