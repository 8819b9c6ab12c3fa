use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("meridian-kept-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kept(revision: u64) -> Kept {
    let view = serde_json::json!({
        "store": "s", "revision": revision, "regions": {}, "gateways": {},
        "replicas": {"a": {"region": "eu", "spec": {"url": "http://10.0.0.1:8000"}}}
    });
    let view = serde_json::from_value(view).unwrap();
    Kept { region: "eu".into(), at: 1_800_000_000, view }
}

// The last written view is read back, only the owner may read it, and no temporary file is left,
// not even one from a crash. Without a write there is no view.
#[test]
fn round_trip() {
    let folder = Folder::new();
    let path = folder.0.join("eu-1.view");
    let file = ViewFile::new(&path, "eu").unwrap();
    assert_eq!(folder.names(), [""; 0], "the trial file is removed");
    assert_eq!(file.read(), Ok(None));
    fs::write(folder.0.join("eu-1.view.new"), "cut sh").unwrap();
    for revision in [7, 8] {
        file.write(&kept(revision)).unwrap();
        assert_eq!(file.read(), Ok(Some(kept(revision))));
    }
    assert_eq!(folder.names(), ["eu-1.view"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

// The report of an unusable file names the field, the problem and the consequence.
#[test]
fn bad_files_are_reported() {
    let folder = Folder::new();
    let path = folder.0.join("eu-1.view");
    let file = ViewFile::new(&path, "eu").unwrap();
    let whole = kept(7).to_bytes();
    let text = String::from_utf8(whole.clone()).unwrap();
    let large = File::create(folder.0.join("large")).unwrap();
    large.set_len(MOST + 1).unwrap();
    for (bytes, part) in [
        (&whole[..whole.len() / 2], "incomplete or damaged"),
        (b"", "does not start like a saved view"),
        (text.replace("\"version\":1,", "\"version\":2,").as_bytes(), "version: 2 is unknown"),
        (
            text.replace("\"eu\",\"at\"", "\"us\",\"at\"").as_bytes(),
            "region: is `us` instead of `eu`",
        ),
    ] {
        fs::write(&path, bytes).unwrap();
        let problem = file.read().unwrap_err();
        assert!(problem.starts_with(&format!("control.view: {}: ", path.display())), "{problem}");
        assert!(problem.contains(part) && problem.contains("the gateway ignores it"), "{problem}");
    }
    fs::rename(folder.0.join("large"), &path).unwrap();
    assert!(file.read().unwrap_err().contains("is larger than"));
    file.write(&kept(7)).unwrap();
    assert_eq!(file.read(), Ok(Some(kept(7))), "the next view replaces it");
}

// If no file can be written, the gateway does not start, and the error names the field.
#[test]
fn a_place_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    fs::write(folder.0.join("file"), "").unwrap();
    for path in [folder.0.join("none/eu-1.view"), folder.0.join("file/eu-1.view"), folder.0.clone()]
    {
        let error = ViewFile::new(&path, "eu").err().unwrap().to_string();
        assert!(
            error.starts_with(&format!("control.view: {}: cannot be written", path.display())),
            "{error}"
        );
        assert!(error.ends_with("that this gateway may write to"), "{error}");
    }
    assert_eq!(folder.names(), ["file"]);
}
