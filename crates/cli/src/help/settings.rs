//! docs/settings.md: the settings, from their keys.

use std::iter;

use repo::keys::{self, Form, Reader, Setting};

use super::native::row;

const INTRODUCTION: &str = "\
# Settings

`just documents` prints this page from the keys in `format/src/keys/`; do not edit it.

These are the settings that sapwood reads or checks. `credential.*`, `url.*`, `http.*` except `http.proxy`, and
`fetch.fsck.*` except `fetch.fsck.skipList` are not here: they depend on an address, or are as many as the
checks. A setting without a default is one whose absence means something else: another setting, a variable or
the repository decides. [commands.md](commands.md#settings) says which values hand a command over to the real
Git, [design/config.md](design/config.md) where a setting is read, and when.

## Settings of sapwood

| setting | values | default | purpose |
|---|---|---|---|
";

const GITS: &str = "
## Settings of Git

They mean what git-config(1) says. The last column names the commands that fail at an invalid value before
they do anything, because Git does. Other commands fail when they use it, if at all. `<name>` stands for a
subsection.

| setting | values | default | checked by |
|---|---|---|---|
";

/// Returns the page.
pub(super) fn page() -> String {
    let (own, gits): (Vec<&Setting>, Vec<&Setting>) =
        keys::all().partition(|setting| !setting.about.is_empty());
    let own = own.into_iter().map(|setting| line(setting, setting.about));
    let gits = gits
        .into_iter()
        .map(|setting| line(setting, setting.check.map_or("", |check| readers(check.reader))));
    iter::once(INTRODUCTION.to_owned()).chain(own).chain([GITS.to_owned()]).chain(gits).collect()
}

fn line(setting: &Setting, last: &str) -> String {
    let name = match setting.name.strip_suffix('*') {
        Some(start) if start.ends_with('.') => format!("{start}<name>"),
        Some(_) => setting.name.to_owned(),
        None => setting.name.replace('*', "<name>"),
    };
    let default = setting.default.map(|default| format!("`{default}`")).unwrap_or_default();
    row(&[&format!("`{name}`"), &values(setting.form), &default, last.trim()])
}

fn values(form: Form) -> String {
    match form {
        Form::Bool => "boolean".to_owned(),
        Form::BoolOr(words) | Form::GivenBoolOr(words) => format!("boolean, {}", listed(words)),
        Form::Number => "number".to_owned(),
        Form::Count => "number, not negative".to_owned(),
        Form::Size => "size".to_owned(),
        Form::Level(_) => "-1 to 9".to_owned(),
        Form::Abbreviation => "`auto`, false, or a length from 4".to_owned(),
        Form::Text => "text".to_owned(),
        Form::Path => "path".to_owned(),
        Form::Character => "text, not empty".to_owned(),
        Form::Word(words, _) | Form::AnyCase(words, _) | Form::Mode(words, _) => listed(words),
        Form::Highlight => listed(&["none", "default", "all", "new", "old", "context"]),
    }
}

fn listed(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn readers(reader: Reader) -> &'static str {
    match reader {
        Reader::Every => "all commands",
        Reader::Repository => "commands that read an index or objects",
        Reader::Hooks => "commands that may run a hook",
        Reader::Plumbing => "commands that compare, `add`, `checkout`, `reset` and others",
        Reader::Porcelain => "commands that show differences",
        Reader::Refs => "commands that read a ref",
        Reader::Checkout => "`checkout` and related commands",
        Reader::Submodules => "commands that list changes in submodules",
        Reader::Columns => "commands that print columns",
        Reader::Clean => "`clean`",
        Reader::Clone => "`clone`",
        Reader::Signing => "commands that sign",
        Reader::Contents => "`hash-object`",
    }
}
