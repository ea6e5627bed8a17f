//! The settings of Git and of sapwood, each defined once: name, type, default, and the commands
//! that refuse an invalid value.
//!
//! A [`Key`] has a type, so its reader gets a value of that type. A section is a module:
//! [`core::SYMLINKS`] is `core.symlinks`. In a name, `*` stands for a subsection; [`Key::of`] puts
//! one there. A name that ends in `*` stands for all settings that begin with it.
//!
//! A default is a text in Git's syntax. A setting whose default depends on anything else has an
//! `Option` as its type, and its reader decides.
//!
//! Source: git-config(1), and Git's message for each invalid value.

mod check;
mod sections;
mod value;

use std::{borrow::Cow, fmt::Display, marker::PhantomData};

use bstr::{BStr, BString, ByteSlice as _};

use crate::split::split_once;

pub use check::{Check, Reader, Values};
pub use sections::*;
pub use value::{AutoCrlf, BadValue, BoolOr, Form, LogAll, PathText, SafeCrlf, Value, Words};

/// Returns all settings.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    sections::ALL.iter().copied().flatten()
}

/// Returns the setting with this name, if its values are checked before a command does anything.
/// Section and variable are in lower case.
pub fn checked(name: &BStr) -> Option<(&'static Setting, Check)> {
    let section = split_once(name, b'.')?.0;
    let is_section = |settings: &&&[Setting]| {
        settings.first().is_some_and(|first| {
            let own = first.name.as_bytes();
            own.get(section.len()) == Some(&b'.') && own[..section.len()].eq_ignore_ascii_case(section)
        })
    };
    let settings = sections::ALL.iter().find(is_section)?;
    settings.iter().find_map(|setting| Some((setting, setting.check.filter(|_| setting.is(name))?)))
}

/// The definition of a setting, without its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name in Git's spelling.
    pub name: &'static str,
    /// The constant, `module::NAME`.
    pub constant: &'static str,
    /// The purpose of a setting of sapwood; empty for Git's.
    pub about: &'static str,
    /// The value that an unset one has, if it is constant.
    pub default: Option<&'static str>,
    /// The form of a valid value.
    pub form: Form,
    /// The check of values before a command does anything.
    pub check: Option<Check>,
}

impl Setting {
    const fn named(name: &'static str, form: Form) -> Setting {
        Setting { name, constant: "", about: "", default: None, form, check: None }
    }

    const fn or(self, default: &'static str) -> Setting {
        Setting { default: Some(default), ..self }
    }

    const fn checked(self, reader: Reader, values: Values) -> Setting {
        Setting { check: Some(Check { reader, values }), ..self }
    }

    const fn of_form(self, form: Form) -> Setting {
        Setting { form, ..self }
    }

    /// Returns true if `name`, whose section and variable are in lower case, is the name of the
    /// setting. Subsections are compared with case.
    fn is(&self, name: &[u8]) -> bool {
        let own = self.name.as_bytes();
        if let Some(star) = own.find_byte(b'*') {
            let (start, end) = (&own[..star], &own[star + 1..]);
            return name.len() >= start.len() + end.len()
                && start.eq_ignore_ascii_case(&name[..start.len()])
                && end.eq_ignore_ascii_case(&name[name.len() - end.len()..]);
        }
        own.eq_ignore_ascii_case(name) && subsection(own) == subsection(name)
    }
}

fn subsection(name: &[u8]) -> &[u8] {
    match (name.find_byte(b'.'), name.rfind_byte(b'.')) {
        (Some(first), Some(last)) => &name[first..last],
        _ => b"",
    }
}

/// A setting with values of type `T`.
#[derive(Debug)]
pub struct Key<T> {
    setting: Setting,
    kind: PhantomData<fn() -> T>,
}

// A derive would require `T: Clone` and `T: Copy`.
impl<T> Clone for Key<T> {
    fn clone(&self) -> Key<T> {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T: Value> Key<T> {
    /// Without a default, the type must be an `Option`.
    const fn new(setting: Setting) -> Key<T> {
        assert!(T::IS_OPTIONAL == setting.default.is_none(), "a default, or a value that may be missing");
        Key { setting, kind: PhantomData }
    }

    /// Returns the setting of a subsection.
    pub fn of(&self, subsection: impl Display) -> KeyOf<T> {
        let name = self.setting.name.replacen('*', &subsection.to_string(), 1);
        KeyOf { name, default: self.setting.default, kind: PhantomData }
    }
}

impl<T> Key<T> {
    /// Returns the name in Git's spelling.
    pub const fn name(&self) -> &'static str {
        self.setting.name
    }

    /// Returns the name in lower case, as it stands in files that Git creates.
    pub fn lower(&self) -> String {
        self.setting.name.to_ascii_lowercase()
    }

    /// Returns the name with this subsection.
    pub fn with(&self, subsection: &[u8]) -> BString {
        self.setting.name.as_bytes().replacen("*", subsection, 1).into()
    }

    /// Returns true if `name`, whose section and variable are in lower case, names the setting.
    pub fn is(&self, name: &BStr) -> bool {
        self.setting.is(name)
    }
}

/// A setting of one subsection.
#[derive(Clone, Debug)]
pub struct KeyOf<T> {
    name: String,
    default: Option<&'static str>,
    kind: PhantomData<fn() -> T>,
}

impl<T> KeyOf<T> {
    /// Returns the name in Git's spelling.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T> From<KeyOf<T>> for String {
    fn from(key: KeyOf<T>) -> String {
        key.name
    }
}

/// The name of a setting.
pub trait Name {
    /// Returns the name, in any case.
    fn name(&self) -> &str;
}

impl Name for str {
    fn name(&self) -> &str {
        self
    }
}

impl Name for String {
    fn name(&self) -> &str {
        self
    }
}

impl Name for Cow<'_, str> {
    fn name(&self) -> &str {
        self
    }
}

impl<N: Name + ?Sized> Name for &N {
    fn name(&self) -> &str {
        (*self).name()
    }
}

impl<T> Name for Key<T> {
    fn name(&self) -> &str {
        self.setting.name
    }
}

impl<T> Name for KeyOf<T> {
    fn name(&self) -> &str {
        &self.name
    }
}

/// A setting whose values have a type.
pub trait Typed: Name {
    /// The type.
    type Value: Value;

    /// Returns the default, if it is constant.
    fn default(&self) -> Option<&'static str>;
}

impl<K: Typed> Typed for &K {
    type Value = K::Value;

    fn default(&self) -> Option<&'static str> {
        (*self).default()
    }
}

impl<T: Value> Typed for Key<T> {
    type Value = T;

    fn default(&self) -> Option<&'static str> {
        self.setting.default
    }
}

impl<T: Value> Typed for KeyOf<T> {
    type Value = T;

    fn default(&self) -> Option<&'static str> {
        self.default
    }
}

/// Defines the settings of sections: `NAME: type = "name" or "default", Reader Values form;`. A
/// comment before one says what it is for.
macro_rules! define {
    ($($module:ident {
        $($(#[doc = $about:literal])* $key:ident: $type:ty = $name:literal $(or $default:literal)?
            $(, $reader:ident $values:ident $($form:expr)?)?;)*
    })*) => {$(
        #[doc = concat!("Settings of the section `", stringify!($module), "`.")]
        pub mod $module {
            use crate::keys::*;

            $(
                #[doc = concat!("`", $name, "`", $(":", $about)*)]
                pub const $key: Key<$type> = Key::new(
                    Setting {
                        constant: concat!(stringify!($module), "::", stringify!($key)),
                        about: concat!($($about),*),
                        ..Setting::named($name, <$type as Value>::FORM)
                    }
                        $(.or($default))?
                        $(.checked(Reader::$reader, Values::$values) $(.of_form($form))?)?
                );
            )*

            /// All settings of the section.
            pub(in crate::keys) const ALL: &[Setting] = &[$($key.setting),*];
        }
    )*};
}

use define;

#[cfg(test)]
mod tests;
