//! No file of the repository is larger than a mebibyte, since every clone keeps it for ever.

use super::{Broken, Rule, of};
use crate::house::File;

pub(crate) const RULE: Rule = Rule {
    name: "size",
    holds: "no file is larger than 1 MiB",
    run: |house| Ok(house.files.iter().filter_map(broken).collect()),
};

const LIMIT: u64 = 1 << 20;

fn broken(file: &File) -> Option<Broken> {
    let what = "bytes, over 1 MiB; make it from a smaller one when it is needed";
    (file.bytes > LIMIT).then(|| of(&file.path, format!("{} {what}", file.bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Exactly the limit is allowed, one byte more is not.
    #[test]
    fn one_byte_over_is_found() {
        let of_size = |bytes| broken(&File { path: "a".into(), bytes, text: None });
        assert_eq!(of_size(LIMIT), None);
        assert!(of_size(LIMIT + 1).is_some_and(|found| found.what.starts_with("1048577 bytes")));
    }
}
