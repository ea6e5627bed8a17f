use std::collections::HashSet;

use super::*;

#[test]
fn each_default_is_a_valid_value() {
    for setting in all() {
        let Some(default) = setting.default else { continue };
        let value = Some(BStr::new(default));
        let is_bool = || bool::parse(value).is_ok();
        let is_valid = match setting.form {
            Form::Bool => is_bool(),
            Form::BoolOr(words) | Form::GivenBoolOr(words) => words.contains(&default) || is_bool(),
            Form::Number | Form::Count | Form::Level(_) | Form::Abbreviation => i32::parse(value).is_ok(),
            Form::Size => matches!(u64::parse(value), Ok(Some(_))),
            Form::Text | Form::Path | Form::Character | Form::Highlight => true,
            Form::Word(words, _) | Form::AnyCase(words, _) | Form::Mode(words, _) => words.contains(&default),
        };
        assert!(is_valid, "{}: {default}", setting.name);
    }
}

#[test]
fn each_setting_is_defined_once_in_its_section() {
    let mut known = HashSet::new();
    for settings in sections::ALL {
        let section = |setting: &Setting| setting.name.split('.').next().map(str::to_ascii_lowercase);
        assert!(settings.windows(2).all(|two| section(&two[0]) == section(&two[1])), "{settings:?}");
        for setting in *settings {
            assert!(known.insert(setting.name.to_ascii_lowercase()), "{}", setting.name);
            assert!(setting.name.matches('*').count() <= 1, "{}", setting.name);
        }
    }
}

#[test]
fn names_are_compared_as_git_compares_them() {
    let is_checked = |name: &str| checked(name.into()).is_some();
    assert!(is_checked("core.ignorecase"));
    assert!(is_checked("gpg.ssh.defaultkeycommand"));
    assert!(!is_checked("gpg.SSH.defaultkeycommand"));
    assert!(is_checked("diff.a.b.textconv"));
    assert!(!is_checked("diff.textconv"));
    assert!(!is_checked("core.eol"));
    assert!(!is_checked("nothing"));
    assert!(remote::URL.is("remote.a.b.url".into()));
    assert_eq!(remote::URL.of("a.b").name(), "remote.a.b.url");
}

#[test]
fn values_have_the_type_of_their_setting() {
    let input = BStr::new("Input");
    assert_eq!(BoolOr::parse(Some(input)), Ok(Some(BoolOr::Word(AutoCrlf::Input))));
    assert_eq!(BoolOr::<AutoCrlf>::parse(None), Ok(Some(BoolOr::Bool(true))));
    assert_eq!(BoolOr::<AutoCrlf>::parse(Some("warn".into())), Err(BadValue::Boolean));
    assert_eq!(u64::parse(Some("-1".into())), Ok(None));
    assert_eq!(u64::unset(core::BIG_FILE_THRESHOLD.setting.default), 512 << 20);
    assert_eq!(Option::<bool>::unset(None), None);
}
