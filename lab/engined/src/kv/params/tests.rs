use super::*;
use serde_json::json;

fn complete() -> Value {
    json!({
        "do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [[1, 2, 3]],
        "remote_engine_id": "1af57ba3", "remote_request_id": "cmpl-1-0-9c814bd2",
        "remote_host": "127.0.0.1", "remote_port": 15600, "tp_size": 1, "dcp_size": 1,
        "pp_size": 1, "remote_num_tokens": 40, "remote_blocks_expiry_time": null,
        "transfer_mode": "pull", "remote_prefill_cached_tokens": 16,
    })
}

// Both legs are recognized as vLLM's routers send them, and neither flag is a whole request.
#[test]
fn legs_are_recognized() {
    let prefill = json!({
        "do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
        "remote_block_ids": null, "remote_host": null, "remote_port": null,
    });
    assert_eq!(Params::read(Some(&prefill)), Ok(Params::Prefill));
    for absent in [None, Some(&Value::Null), Some(&json!({})), Some(&json!({"a": 1}))] {
        assert_eq!(Params::read(absent), Ok(Params::Absent));
    }
    let Ok(Params::Decode(remote)) = Params::read(Some(&complete())) else {
        panic!("a decode leg")
    };
    assert_eq!((remote.port, &remote.blocks[..]), (15600, &[1, 2, 3][..]));
    assert_eq!(remote.cached_tokens, Some(16));
    let mut flat = complete();
    flat["remote_block_ids"] = json!([1, 2, 3]);
    assert_eq!(Params::read(Some(&flat)), Ok(Params::Decode(remote)));
}

// Each missing or wrong field is refused by its name, with the remedy and without its value.
#[test]
fn half_of_the_params_is_refused() {
    let cases = [
        ("remote_engine_id", json!(5)),
        ("remote_request_id", json!("")),
        ("remote_host", json!(["secret"])),
        ("remote_port", json!(70_000)),
        ("remote_port", json!("15600")),
        ("remote_block_ids", json!([[]])),
        ("remote_block_ids", json!([[1], [2]])),
        ("remote_block_ids", json!([[-1]])),
        ("do_remote_decode", json!("secret")),
        ("do_remote_decode", json!(true)),
        ("transfer_mode", json!("push")),
    ];
    for (field, value) in cases {
        let mut params = complete();
        params[field] = value;
        let message = Params::read(Some(&params)).unwrap_err();
        assert!(message.contains(field) && !message.contains("secret"), "{message}");
    }
    let required =
        ["remote_engine_id", "remote_request_id", "remote_host", "remote_port", "remote_block_ids"];
    for field in required {
        let mut params = complete();
        params.as_object_mut().unwrap().remove(field);
        let message = Params::read(Some(&params)).unwrap_err();
        assert!(message.contains(&format!("{field} is missing")), "{message}");
        assert!(message.contains("send null"), "{message}");
    }
    let alone = json!({"do_remote_prefill": true, "do_remote_decode": false});
    assert!(Params::read(Some(&alone)).is_err());
    assert!(Params::read(Some(&json!("secret"))).unwrap_err().contains("not an object"));
}

// A prompt that needs more blocks than the params name is refused.
#[test]
fn too_few_blocks_are_refused() {
    let params = Params::read(Some(&complete())).unwrap();
    assert_eq!(params.check_blocks(3), Ok(()));
    let message = params.check_blocks(4).unwrap_err();
    assert!(message.contains("3 blocks") && message.contains("needs 4"), "{message}");
}
