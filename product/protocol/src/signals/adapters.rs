//! The LoRA adapters of an engine's requests.

/// The adapters that an engine's load page names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdaptersInUse {
    /// The adapters that one batch can have.
    pub slots: u32,
    /// Those of running requests.
    pub running: Vec<String>,
    /// Those of waiting requests.
    pub waiting: Vec<String>,
}

impl AdaptersInUse {
    /// The names of a label value, separated by commas, with or without blanks.
    pub(crate) fn names(value: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(value);
        let text = text.replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\");
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }
}
