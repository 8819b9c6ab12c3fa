//! The crates and the test programs of a run: all of them, or those of a lane.
//!
//! Cargo gets crates as `--workspace --exclude CRATE`, in each call the same. A crate that has a
//! binary is never excluded: without its dependencies cargo would resolve other features, and compile
//! libraries again.

use cargo_metadata::Package;

/// A kind of test programs, which the beginning of their file name says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Needs no other software, and takes seconds.
    Unit,
    /// Starts real processes: the product, end to end.
    Real,
    /// Validators, clients and servers of other projects that the product has to agree with.
    Foreign,
    /// Asks a Kubernetes API server, which is built from source.
    Kube,
    /// Takes minutes.
    Heavy,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] =
        [Kind::Unit, Kind::Real, Kind::Foreign, Kind::Kube, Kind::Heavy];

    /// The kind of a test program: `tests/real_queues` is real.
    pub(crate) fn of(program: &str) -> Kind {
        let named = [Kind::Real, Kind::Foreign, Kind::Kube, Kind::Heavy];
        let found = named.into_iter().find(|kind| program.starts_with(kind.prefix()));
        found.unwrap_or(Kind::Unit)
    }

    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Kind::Unit => "",
            Kind::Real => "real",
            Kind::Foreign => "foreign",
            Kind::Kube => "kube",
            Kind::Heavy => "heavy",
        }
    }
}

/// What a run builds and tests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Scope {
    #[default]
    Whole,
    /// The crates but these, and the test programs of these kinds.
    Part { without: Vec<String>, kinds: Vec<Kind> },
}

impl Scope {
    pub(crate) fn whole(&self) -> bool {
        *self == Scope::Whole
    }

    pub(crate) fn without(&self) -> &[String] {
        match self {
            Scope::Whole => &[],
            Scope::Part { without, .. } => without,
        }
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        match self {
            Scope::Whole => &Kind::ALL,
            Scope::Part { kinds, .. } => kinds,
        }
    }

    /// The crates as arguments of cargo.
    pub(crate) fn args(&self) -> Vec<&str> {
        let without = self.without().iter().flat_map(|name| ["--exclude", name]);
        ["--workspace"].into_iter().chain(without).collect()
    }

    pub(crate) fn has(&self, package: &Package) -> bool {
        !self.without().iter().any(|name| *name == *package.name)
    }
}

/// The test programs of a package by name. Without those that it sets apart with `test = false`.
pub(crate) fn programs(package: &Package) -> impl Iterator<Item = &str> {
    let tests = package.targets.iter().filter(|target| target.is_test() && target.test);
    tests.map(|target| target.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The beginning of a name decides, so a crate can have several programs of a kind.
    #[test]
    fn the_name_of_a_program_says_its_kind() {
        let names = ["all", "real", "real_queues", "foreign", "kube", "heavy_goldens", "models"];
        let [unit, real, foreign, kube, heavy] = Kind::ALL;
        assert_eq!(names.map(Kind::of), [unit, real, real, foreign, kube, heavy, unit]);
    }

    // Cargo gets each crate that is left out.
    #[test]
    fn crates_are_left_out_by_name() {
        assert_eq!(Scope::Whole.args(), ["--workspace"]);
        let without = vec!["a".to_owned(), "b".to_owned()];
        let part = Scope::Part { without, kinds: vec![Kind::Unit] };
        assert_eq!(part.args(), ["--workspace", "--exclude", "a", "--exclude", "b"]);
    }
}
