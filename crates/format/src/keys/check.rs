//! The commands that refuse an invalid value before they do anything.

/// Settings that a command reads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// All commands.
    Every,
    /// Commands that read an index or objects.
    Repository,
    /// Commands that may run a hook or look for one.
    Hooks,
    /// Plumbing commands that list differences.
    Plumbing,
    /// Porcelain commands that show differences.
    Porcelain,
    /// Commands that read a ref.
    Refs,
    /// `checkout` and related commands.
    Checkout,
    /// Commands that list changes in submodules.
    Submodules,
    /// Commands that may print columns.
    Columns,
    /// `clean`.
    Clean,
    /// `clone`.
    Clone,
    /// Commands that sign, while they sign.
    Signing,
    /// `hash-object`.
    Contents,
}

/// The values of a key that are checked, if it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Every value, as Git does for what it reads with the whole configuration.
    All,
    /// The last value, as Git does for what it reads on demand.
    Last,
}

/// The check of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// The commands that refuse an invalid value.
    pub reader: Reader,
    /// The values that they check.
    pub values: Values,
}
