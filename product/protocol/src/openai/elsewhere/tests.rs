use super::*;

/// A form with these parts: their `content-disposition` and their content.
fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (disposition, content) in parts {
        let head = format!("--X-1\r\nContent-Disposition: form-data; {disposition}\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(b"Content-Type: text/plain\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--X-1--\r\n");
    body
}

fn found(content_type: &str, target: &str, body: &[u8]) -> Option<String> {
    Elsewhere::find(&head(content_type, target), body).expect("it ends").map(|found| found.model)
}

fn head<'a>(content_type: &'a str, target: &'a str) -> Head<'a> {
    Head { target, content_type: content_type.as_bytes() }
}

const FORM: &str = "multipart/form-data; boundary=X-1";

// Defect multipart-model: a form in which an engine may find another model than the gateway is refused: one without an
// end, or with too many parts. A longer text that begins like a boundary is none.
#[test]
fn forms_are_read_to_their_end() {
    let model = ("name=\"model\"", b"m".as_slice());
    let refused = |body: &[u8]| {
        let found = Elsewhere::find(&head(FORM, "/"), body);
        found.map(|_| ()).expect_err("it is refused").message
    };
    let whole = form(&[model, ("name=\"a\"", b"b")]);
    assert!(refused(&whole[..whole.len() - 12]).contains("no boundary at its end"));
    let mut parts = vec![("name=\"a\"", b"b".as_slice()); MOST_PARTS];
    parts.push(model);
    assert!(refused(&form(&parts)).contains("more than 1,024 parts"));
    let long =
        ["--X-1\r\nContent-Type: ", &"x".repeat(MOST_PART_HEAD), "\r\n\r\nm\r\n--X-1--"].concat();
    assert!(refused(long.as_bytes()).contains("its headers"));
    let inside =
        b"\r\n--X-12\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nother\r\n--X-1z";
    let body = form(&[model, ("name=\"file\"; filename=\"a\"", inside)]);
    assert_eq!(found(FORM, "/", &body).as_deref(), Some("m"));
    let padded = b"--X-1 \r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--X-1--";
    assert_eq!(found(FORM, "/", padded).as_deref(), Some("m"));
}

// Defect multipart-model: the field `model` of a form is found before and after the file, whatever the file contains.
#[test]
fn fields_of_forms() {
    let file: &[u8] =
        &[b"RIFF\r\n\r\n--X-\r\nname=\"model\"\r\n\r\nno".as_slice(), &[0xFF; 200_000]].concat();
    let audio = ("name=\"file\"; filename=\"a.wav\"", file);
    let model = |name: &'static [u8]| ("name=\"model\"", name);
    type Case<'a> = (&'a [(&'a str, &'a [u8])], Option<&'a str>);
    let table: [Case<'_>; 10] = [
        (&[model(b"whisper"), audio], Some("whisper")),
        (&[audio, model(b"whisper")], Some("whisper")),
        (&[audio, ("name=model", b"org/whisper v3")], Some("org/whisper v3")),
        (&[("name=\"language\"", b"model"), model(b"m"), ("name=\"n\"", b"2")], Some("m")),
        (&[model(b"m"), model(b"last")], Some("last")),
        (&[("NAME=\"model\"", b"m")], Some("m")),
        (&[("name=\"model\"; filename=\"m\"", b"m")], None),
        (&[("name=\"amodel\"", b"m"), ("name=\"a;name=model\"", b"m")], None),
        (&[model(b""), audio], None),
        (&[model(b"\xFF")], None),
    ];
    for (n, (parts, expected)) in table.into_iter().enumerate() {
        let body = form(parts);
        assert_eq!(found(FORM, "/v1/audio/transcriptions", &body).as_deref(), expected, "{n}");
        let preamble = [b"preamble\r\n".as_slice(), &body].concat();
        assert_eq!(found(FORM, "/", &preamble).as_deref(), expected, "{n}, with a preamble");
    }
    let body = form(&[model(b"m"), audio]);
    for (content_type, expected) in [
        ("Multipart/Form-Data; charset=utf-8; Boundary=\"X-1\"", Some("m")),
        ("multipart/form-data; boundary=\"X\\-1\"", Some("m")),
        ("multipart/form-data; a; boundary=X-1", Some("m")),
        ("multipart/form-data; boundary=X-2", None),
        ("multipart/form-data", None),
        ("text/plain; boundary=X-1", None),
        ("", None),
    ] {
        assert_eq!(found(content_type, "/", &body).as_deref(), expected, "{content_type}");
    }
}

// Encoded forms, queries and paths name a model too; a form goes before the query, and the query
// before the path. JSON is no form, whatever its content type says.
#[test]
fn other_places() {
    let encoded = "application/x-www-form-urlencoded";
    for (content_type, target, body, expected) in [
        (encoded, "/x", "a=1&model=org%2Fm+1&b", Some("org/m 1")),
        (encoded, "/x?model=q", "amodel=m", Some("q")),
        (encoded, "/x", r#"{"a":"&model=m&"}"#, None),
        ("", "/x?a=1&model=org%2fm", "", Some("org/m")),
        ("", "/x?models=m&model=", "", None),
        ("", "/v1beta/models/gemma:generateContent", "", Some("gemma")),
        ("", "/v1beta/models/org/gemma:generateContent?alt=sse", "", Some("org/gemma")),
        ("", "/v2/models/gemma/infer", "", Some("gemma")),
        ("", "/openai/deployments/gpt%204/chat/completions", "", Some("gpt 4")),
        ("", "/v1/models/a/infer?model=b", "", Some("b")),
        ("", "/v1/models/", "", None),
        ("", "/version", "", None),
    ] {
        let found = found(content_type, target, body.as_bytes());
        assert_eq!(found.as_deref(), expected, "{target} {body}");
    }
    let body = form(&[("name=\"model\"", b"m")]);
    assert_eq!(found(FORM, "/v1/models/p/x?model=q", &body).as_deref(), Some("m"));
}

// Another name is written where the first one was, and nothing else changes.
#[test]
fn renamed() {
    let of = |content_type: &str, target: &str, body: &str| {
        let head = Head { target, content_type: content_type.as_bytes() };
        let found = Elsewhere::find(&head, body.as_bytes()).expect("it ends");
        let found = found.expect("names a model");
        found.renamed(&head, "org/new").map(|splice| {
            let Range { start, end } = splice.at..splice.at + splice.remove;
            [&body.as_bytes()[..start], &splice.insert, &body.as_bytes()[end..]].concat()
        })
    };
    let text = |name: &'static [u8]| {
        String::from_utf8(form(&[("name=\"model\"", name), ("name=\"x\"", b"y")]))
    };
    let (before, after) = (text(b"old").expect("is text"), text(b"org/new").expect("is text"));
    assert_eq!(of(FORM, "/", &before), Ok(after.into_bytes()));
    let encoded = of("application/x-www-form-urlencoded", "/", "a=1&model=old&b=2");
    assert_eq!(encoded, Ok(b"a=1&model=org%2Fnew&b=2".to_vec()));
    assert_eq!(of("", "/x?model=old&b", ""), Err("/x?model=org%2Fnew&b".to_owned()));
    let path = of("", "/v1beta/models/old:generateContent?b", "");
    assert_eq!(path, Err("/v1beta/models/org%2Fnew:generateContent?b".to_owned()));
}

// No bytes make the search panic.
#[test]
fn any_bytes() {
    let whole = form(&[("name=\"model\"", b"whisper"), ("name=\"a\"; filename=\"b\"", b"c")]);
    for cut in 0..whole.len() {
        let _ = Elsewhere::find(&head(FORM, "/x?model=%f"), &whole[..cut]);
        let _ = Elsewhere::find(&head(FORM, "/models/%"), &whole[cut..]);
    }
    for content_type in
        ["multipart/form-data;", "multipart/form-data;=;=", "multipart/form-data;a=\"\\"]
    {
        let _ = found(content_type, "?", &whole);
    }
}
