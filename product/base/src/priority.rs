//! Priority classes of requests.

/// A priority class. Held requests of a higher class go before all those of lower ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Work that can wait, such as batch jobs.
    Low,
    /// Everything else.
    #[default]
    Normal,
    /// Goes before all others.
    High,
}

impl Priority {
    /// Every class, the highest first.
    pub const ALL: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];

    /// Its name, in configurations and headers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        }
    }

    /// The class of a name.
    #[must_use]
    pub fn of(word: &str) -> Option<Priority> {
        Priority::ALL.into_iter().find(|priority| priority.word() == word)
    }
}
