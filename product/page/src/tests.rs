use super::*;

fn text(path: &str) -> &'static str {
    find(Host::Gateway, path).unwrap_or_else(|| panic!("{path} is not embedded")).text
}

/// The values of an attribute or an import in a text: between `mark` and the next quote.
fn named<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    text.split(mark).skip(1).filter_map(|rest| rest.split(['"', '\'']).next()).collect()
}

// Every file that a page or a script names is embedded, and no file names another host's.
#[test]
fn the_page_is_whole() {
    for file in FILES.iter().chain(&SOURCES).filter(|file| !file.path.contains("uplot")) {
        let scripts = named(file.text, "from '");
        let loaded = named(file.text, "src=\"")
            .into_iter()
            .chain(named(file.text, "<link rel=\"stylesheet\" href=\""));
        for path in loaded {
            assert!(find(Host::Gateway, path).is_some(), "{}: {path}", file.path);
        }
        for path in scripts {
            let path = path.strip_prefix('.').unwrap_or_else(|| panic!("{}: {path}", file.path));
            assert!(find(Host::Up, &format!("/page{path}")).is_some(), "{}: {path}", file.path);
        }
        for inline in ["style=\"", "<style", "onclick=", "innerHTML", "insertAdjacentHTML", "eval("]
        {
            assert!(!file.text.contains(inline), "{}: {inline}", file.path);
        }
    }
    assert!(!text("/login").contains("http"));
}

// An answer has its type, its policy and a hash; with that hash, it is only a 304. The two programs
// differ in the source of the state, and `meridian up` has no login.
#[test]
fn answers() {
    let first = answer(Host::Gateway, "/", None).unwrap();
    let header = |name: &str| first.headers()[name].to_str().unwrap();
    assert_eq!(
        (first.status(), header("content-type")),
        (StatusCode::OK, "text/html; charset=utf-8")
    );
    assert!(header("content-security-policy").starts_with("default-src 'none'; script-src 'self'"));
    assert!(!POLICY.contains("unsafe"));
    let again = answer(Host::Gateway, "/", Some(header("etag").as_bytes())).unwrap();
    assert_eq!((again.status(), again.body().len()), (StatusCode::NOT_MODIFIED, 0));
    let changed = answer(Host::Gateway, "/", Some(b"\"0\"")).unwrap();
    assert_eq!(changed.status(), StatusCode::OK);
    let source = |host| answer(host, "/page/source.js", None).unwrap().into_body();
    assert_ne!(source(Host::Gateway), source(Host::Up));
    assert!(answer(Host::Up, "/login", None).is_none());
    assert!(answer(Host::Gateway, "/page/../Cargo.toml", None).is_none());
}

// The page stays small: it is opened over slow links.
#[test]
fn the_page_is_small() {
    let bytes: usize = FILES.iter().map(|file| file.text.len()).sum();
    assert!(bytes < 160 << 10, "{bytes} bytes");
}

// The vendored files are those of the npm package that vendor/SOURCE.md names.
#[test]
fn vendored_files_are_unchanged() {
    let source = include_str!("../vendor/SOURCE.md");
    for path in ["/page/uplot.js", "/page/uplot.css"] {
        let digest = ring::digest::digest(&ring::digest::SHA256, text(path).as_bytes());
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(source.contains(&hex), "{path}: {hex}");
    }
}
