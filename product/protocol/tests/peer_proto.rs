//! `src/peer/proto.rs` is the protobuf compiler's output for `src/peer/peer.proto`.

use std::path::Path;

// After a change of the protocol, run this test with REWRITE=1 to write the file again.
#[test]
fn generated_code_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/peer");
    let out = std::env::temp_dir().join(format!("meridian-peer-proto-{}", std::process::id()));
    std::fs::create_dir_all(&out).expect("makes a folder");
    let mut config = prost_build::Config::new();
    let peer = [folder.join("peer.proto")];
    config.out_dir(&out).compile_protos(&peer, &[&folder]).expect("protoc reads peer.proto");
    let made = std::fs::read_to_string(out.join("meridian.peer.v1.rs")).expect("was made");
    std::fs::remove_dir_all(&out).expect("is there");

    let path = folder.join("proto.rs");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, &made).expect("writes");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "proto.rs is not made of peer.proto; run this test with REWRITE=1");
}
