//! `meridian_flow.h` agrees with the functions of the flow crate's C ABI.
//!
//! `./x docs` makes the header from the sources with cbindgen, so it can't declare a function other
//! than it is.

use super::{Broken, Rule, of};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "header",
    holds: "meridian_flow.h declares what the library exports",
    run: |house| Ok(broken(house.text(HEADER).unwrap_or_default(), &made(house)?)),
};

const HEADER: &str = "flow/flow-abi/include/meridian_flow.h";
const SOURCES: [&str; 2] = ["flow/flow-abi/src/codes.rs", "flow/flow-abi/src/exports.rs"];
const HEAD: &str =
    "/* Meridian's flow gate, for connectors in engines. Made by ./x docs; see lab/docs/flow.md.
 *
 * Every function may be called by any thread, with any numbers, at any time. Strings are UTF-8 and
 * NUL-terminated. A negative result is a code below: send without a permit then. */";

/// Writes the header.
pub(super) fn write(house: &House) -> anyhow::Result<()> {
    let path = house.root.join(HEADER);
    path.parent().map(std::fs::create_dir_all).transpose()?;
    std::fs::write(path, made(house)?)?;
    println!("wrote {HEADER}");
    Ok(())
}

fn made(house: &House) -> anyhow::Result<String> {
    let mut builder = cbindgen::Builder::new()
        .with_language(cbindgen::Language::C)
        .with_cpp_compat(true)
        .with_include_guard("MERIDIAN_FLOW_H")
        .with_header(HEAD)
        .with_no_includes()
        .with_sys_include("stddef.h")
        .with_sys_include("stdint.h");
    for source in SOURCES {
        builder = builder.with_src(house.root.join(source));
    }
    let mut text = Vec::new();
    builder.generate()?.write(&mut text);
    Ok(String::from_utf8(text)?)
}

fn broken(found: &str, wanted: &str) -> Vec<Broken> {
    if found == wanted { vec![] } else { vec![of(HEADER, "is out of date; run ./x docs")] }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The header has the functions and the codes, and an older one is found.
    #[test]
    fn an_old_header_is_found() {
        let header = made(&House::open().unwrap()).unwrap();
        for name in ["int64_t meridian_gate_permit(", "#define MERIDIAN_FULL -5"] {
            assert!(header.contains(name), "{header}");
        }
        assert_eq!(broken("", &header).len(), 1);
        assert_eq!(broken(&header, &header), []);
    }
}
